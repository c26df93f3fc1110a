import {expect, test} from 'vitest'
import {readQrSvg} from '../test/support/qr.ts'
import {qrSvg} from './qr.ts'

const person = '0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359'

test.each([
  'bitcoin:tb1qw508d6qejxtdg4y5r3zarvary0c5xw7kxpjzsx?amount=0.00000001',
  `ethereum:${person}@11155111?value=2014000000000000000`,
  `ethereum:0x1c7D4B196Cb0C7B01d743Fbc6116a902379C7238@11155111/transfer?address=${person}&uint256=${2n ** 256n - 1n}`,
  person,
  '1',
  'straße & <b>"日本"</b>',
])('a reader decodes exactly %s from its code', async text => {
  expect(await readQrSvg(qrSvg(text))).toMatchObject({text, isMirrored: false, isInverted: false})
})

test('the code is on white, with a margin of four modules on each side', () => {
  const svg = qrSvg(person)
  const size = Number(/^<svg xmlns="http:\/\/www.w3.org\/2000\/svg" viewBox="0 0 (\d+) \1"/.exec(svg)![1])
  expect(svg).toContain(`<path fill="#fff" d="M0 0h${size}v${size}H0z"/>`)
  const [, dark] = /fill="#000" d="([^"]+)"/.exec(svg)!
  const runs = [...dark!.matchAll(/M(\d+) (\d+)h(\d+)/g)].map(([, ...numbers]) => numbers.map(Number))
  expect(Math.min(...runs.map(([x]) => x!))).toBe(4)
  expect(Math.min(...runs.map(([, y]) => y!))).toBe(4)
  expect(Math.max(...runs.map(([x, , length]) => x! + length!))).toBe(size - 4)
  expect(Math.max(...runs.map(([, y]) => y!))).toBe(size - 5)
})

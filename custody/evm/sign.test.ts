// The standards' test vectors, an independent computation, and a token contract that checks signatures itself.
import {signRecoverable} from 'tiny-secp256k1'
import {
  concat,
  encodeAbiParameters,
  type Hex,
  hexToBigInt,
  hexToBytes,
  keccak256,
  numberToHex,
  parseTransaction,
  toHex,
} from 'viem'
import {afterAll, beforeAll, expect, test} from 'vitest'
import {accounts} from '../../devnet/evm/constants.ts'
import {Anvil, localChainId} from '../../test/support/evm/anvil.ts'
import {families} from '../families.ts'
import {type KeyPath, localKeys} from '../keys/key-store.ts'
import {readSignature} from '../keys/secp256k1.ts'
import {
  addressOf,
  authorisationDigest,
  authorisationNonce,
  receiveCall,
  type Sign,
  signTransaction,
  type Token,
  transferCall,
} from './sign.ts'

const junk = 'test test test test test test test test test test test junk'

// From the tests of another implementation (ethereumjs, eip1559.json).
const vectorKey = hexToBytes('0x8f2a55949038a9610f50fb23b5883af3b4ecb3c3bb792cbcefbd1542c692be63')
test.each([
  {
    nonce: 819,
    value: 43203529n,
    gasLimit: 35552n,
    maxPriorityFeePerGas: 75853n,
    maxFeePerGas: 121212n,
    raw: '0x02f870821e8e8203338301284d8301d97c828ae094000000000000000000000000000000000000aaaa8402933bc980c080a0d067f2167008c59219652f91cbf8788dbca5f771f6e91e2b7657e85b78b472e0a01d305af9fe81fdba43f0dfcd400ed24dcace0a7e30d4e85701dcaaf484cd079e',
  },
  {
    nonce: 119,
    value: 65456115n,
    gasLimit: 62341n,
    maxPriorityFeePerGas: 24721n,
    maxFeePerGas: 107729n,
    raw: '0x02f86d821e8e778260918301a4d182f38594000000000000000000000000000000000000aaaa8403e6c7f380c001a0e38e239770801eb995498c821e55ac9c19ae09184bb27b34be105e02fe3b7615a067c64ca6bd6d9107e85fd581ab2e70a14b637eb36505bb40861ef9d6e800cab6',
  },
])(
  'EIP-1559: a transaction with nonce $nonce has the same bytes as in other implementations',
  async ({raw, ...transaction}) => {
    const sign: Sign = async digest => {
      const {signature, recoveryId} = signRecoverable(digest, vectorKey)
      const [r, s] = [hexToBigInt(toHex(signature.subarray(0, 32))), hexToBigInt(toHex(signature.subarray(32)))]
      return {r, s, yParity: recoveryId as 0 | 1}
    }
    const to = '0x000000000000000000000000000000000000aaaa'
    const signed = await signTransaction({chainId: 7822, to, ...transaction}, sign)
    expect(signed).toEqual({raw, txid: keccak256(raw as Hex)})
  },
)

test('EIP-712: the digest of an authorisation matches the standard, computed by hand', () => {
  const token: Token = {
    contract: '0x1c7D4B196Cb0C7B01d743Fbc6116a902379C7238',
    chainId: 11_155_111,
    name: 'USDC',
    version: '2',
  }
  const [from, to] = [accounts[3]!.address, accounts[4]!.address]
  const nonce = authorisationNonce('0198f2b4-0000-7000-8000-000000000001')
  expect(nonce).toBe(keccak256('0x0198f2b4000070008000000000000001'))
  const hash = (text: string) => keccak256(toHex(text))
  const words = (values: [type: string, value: unknown][]) =>
    encodeAbiParameters(
      values.map(([type]) => ({type})),
      values.map(([, value]) => value),
    )
  const domain = words([
    ['bytes32', hash('EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)')],
    ['bytes32', hash('USDC')],
    ['bytes32', hash('2')],
    ['uint256', 11_155_111n],
    ['address', token.contract],
  ])
  const type =
    'ReceiveWithAuthorization(address from,address to,uint256 value,uint256 validAfter,uint256 validBefore,bytes32 nonce)'
  expect(hash(type)).toBe('0xd099cc98ef71107a616c4f0f941f04c322d8e254fe26b3c6668db87aae413de8') // as in Circle's FiatTokenV2
  const message = words([
    ['bytes32', hash(type)],
    ['address', from],
    ['address', to],
    ['uint256', 12_500_000n],
    ['uint256', 0n],
    ['uint256', 2n ** 256n - 1n],
    ['bytes32', nonce],
  ])
  expect(authorisationDigest(token, {from, to, value: 12_500_000n, nonce})).toBe(
    keccak256(concat(['0x1901', keccak256(domain), keccak256(message)])),
  )
})

let anvil: Anvil
beforeAll(async () => {
  anvil = await Anvil.start()
})
afterAll(() => anvil?.stop())

const fees = {maxFeePerGas: 10n ** 11n, maxPriorityFeePerGas: 10n ** 9n}

test('a chain accepts what is signed: native coins, a token, and authorised transfers, only from the treasury and only once', async () => {
  const keys = await localKeys(junk, families)
  const deposit: KeyPath = {family: 'evm', purpose: 'deposit', index: 50}
  const treasury: KeyPath = {family: 'evm', purpose: 'treasury', index: 0}
  const [from, to] = [addressOf(await keys.publicKey(deposit)), addressOf(await keys.publicKey(treasury))]
  const merchant = '0x00000000000000000000000000000000000A11cE'
  const signer =
    (path: KeyPath): Sign =>
    async digest =>
      readSignature(await keys.sign(path, digest))
  await anvil.send({to: from, value: 10n ** 18n})
  await anvil.send({to, value: 10n ** 18n})
  await anvil.sendUsdc(from, 700n)
  await anvil.mine()

  const common = {chainId: localChainId, ...fees}
  const swept = await signTransaction({...common, nonce: 0, to, value: 5n, gasLimit: 21_000n}, signer(deposit))
  const token: Token = {contract: anvil.usdc, chainId: localChainId, name: 'USDC', version: '2'}
  const authorisation = {from, to, value: 600n, nonce: authorisationNonce('0198f2b4-0000-7000-8000-000000000001')}
  const data = await receiveCall(token, authorisation, signer(deposit))
  const relay = {...common, to: anvil.usdc, value: 0n, data, gasLimit: 120_000n}
  const relayed = await signTransaction({...relay, nonce: 0}, signer(treasury))
  const again = await signTransaction({...relay, nonce: 1}, signer(treasury))
  const paid = await signTransaction(
    {...common, nonce: 2, to: anvil.usdc, value: 0n, data: transferCall(merchant, 250n), gasLimit: 100_000n},
    signer(treasury),
  )
  const stolen = await signTransaction({...relay, nonce: 1}, signer(deposit))
  for (const {raw, txid} of [swept, relayed, again, paid, stolen]) expect(await anvil.resend(raw)).toBe(txid)
  await anvil.mine()

  const status = async ({txid}: {txid: string}) =>
    (await anvil.call<{status: Hex}>('eth_getTransactionReceipt', [txid])).status
  expect(await Promise.all([swept, relayed, again, paid, stolen].map(status))).toEqual([
    '0x1',
    '0x1',
    '0x0',
    '0x1',
    '0x0',
  ])
  expect(await anvil.tokenBalance(from)).toBe(100n)
  expect(await anvil.tokenBalance(to)).toBe(350n)
  expect(await anvil.tokenBalance(merchant)).toBe(250n)
  const parsed = parseTransaction(swept.raw)
  expect(parsed).toMatchObject({
    type: 'eip1559',
    chainId: localChainId,
    to: to.toLowerCase(),
    value: 5n,
    gas: 21_000n,
    ...fees,
  })
  const seen = await anvil.call<{from: string; nonce: Hex}>('eth_getTransactionByHash', [swept.txid])
  expect(seen).toMatchObject({from: from.toLowerCase(), nonce: numberToHex(0)})
})

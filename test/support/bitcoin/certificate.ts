// Certificates for tests: self-signed, for one name or IP address. Each is new, so that no file holds a key.
import {generateKeyPairSync, sign} from 'node:crypto'
import {isIP} from 'node:net'

/** A key and a certificate for `host`, in PEM. The certificate is its own authority. */
export function selfSigned(host: string): {key: string; cert: string} {
  const {privateKey, publicKey} = generateKeyPairSync('ec', {namedCurve: 'prime256v1'})
  const algorithm = der(0x30, oid(0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02)) // ecdsa-with-SHA256
  const name = der(0x30, der(0x31, der(0x30, oid(0x55, 0x04, 0x03), der(0x0c, Buffer.from(host)))))
  const authority = der(0x30, oid(0x55, 0x1d, 0x13), der(0x04, der(0x30, der(0x01, Buffer.of(0xff)))))
  const alternative = isIP(host) ? der(0x87, Buffer.from(host.split('.').map(Number))) : der(0x82, Buffer.from(host))
  const names = der(0x30, oid(0x55, 0x1d, 0x11), der(0x04, der(0x30, alternative)))
  const content = der(
    0x30,
    der(0xa0, der(0x02, Buffer.of(2))), // version 3
    der(0x02, Buffer.of(1)),
    algorithm,
    name,
    der(0x30, time('20200101000000Z'), time('20991231235959Z')),
    name,
    publicKey.export({type: 'spki', format: 'der'}),
    der(0xa3, der(0x30, authority, names)),
  )
  const signature = sign('sha256', content, privateKey)
  const certificate = der(0x30, content, algorithm, der(0x03, Buffer.of(0), signature))
  const base64 = certificate.toString('base64').replace(/.{64}/g, '$&\n')
  return {
    key: privateKey.export({type: 'pkcs8', format: 'pem'}) as string,
    cert: `-----BEGIN CERTIFICATE-----\n${base64}\n-----END CERTIFICATE-----\n`,
  }
}

/** An ASN.1 value in DER. */
function der(tag: number, ...content: Buffer[]): Buffer {
  const body = Buffer.concat(content)
  const size = body.length
  const length = size < 0x80 ? [size] : size < 0x100 ? [0x81, size] : [0x82, size >> 8, size & 0xff]
  return Buffer.concat([Buffer.of(tag, ...length), body])
}

const oid = (...bytes: number[]) => der(0x06, Buffer.of(...bytes))
const time = (text: string) => der(0x18, Buffer.from(text))

import type {ChainSettings} from './families.ts'

/**
 * What a QR code should hold: the payment URI, or the address alone. The link of a token (EIP-681) begins with its
 * contract, and wallets that read no further send the money there, where it is lost; others take base units for coins
 * (docs/payment-requests.md has the sources). So a token has the address alone.
 */
export function codeFor(
  {chain}: ChainSettings,
  {token, address}: {token: string; address: string},
  uri: string,
): string {
  return token === chain.assets[0].token ? uri : address
}

/**
 * As a QR code holds it. An address in bech32 is read in upper case, too, and makes a smaller code so (BIP-173); the
 * names of a link's parameters are not (BIP-21).
 */
export const forQr = (text: string): string =>
  text.replace(
    /^(bitcoin:)((?:bc|tb|bcrt)1[0-9a-z]+)/,
    (_, scheme: string, address: string) => scheme + address.toUpperCase(),
  )

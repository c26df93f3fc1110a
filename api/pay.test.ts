// The page of a payment request as the server sends it; test/faults/payment-page.test.ts tests it in a browser.
import {hash} from 'node:crypto'
import {decodeFunctionData, erc20Abi} from 'viem'
import {afterAll, beforeAll, expect, test} from 'vitest'
import {type Api, startApi} from '../test/support/api.ts'
import {Money} from '../test/support/money.ts'
import {type Made, PaymentRequests} from '../test/support/payment-requests.ts'
import {readQrSvg} from '../test/support/qr.ts'
import {until} from '../test/support/until.ts'

let money: Money
let requests: PaymentRequests
let api: Api
let merchantId: string

beforeAll(async () => {
  money = await Money.open()
  requests = await PaymentRequests.open(money.db)
  api = await startApi(money.db)
  merchantId = (await money.merchant()).merchantId
})
afterAll(async () => {
  await api.close()
  await money.close()
})

/** A request for this many base units of USDC. */
const ask = (amount = 1_000_000, currency = 'ETH-USDC') => requests.create(money.api, merchantId, {amount, currency})
const get = (path: string, init?: RequestInit) => fetch(`${api.url}/pay/${path}`, init)
const pageOf = async ({page_token}: Made) => (await get(page_token)).text()
const stateOf = async ({page_token}: Made) => JSON.parse(await (await get(`${page_token}/state`)).text())

const usdc = '0x1c7D4B196Cb0C7B01d743Fbc6116a902379C7238'
const uriFor = (address: string, baseUnits: number) =>
  `ethereum:${usdc}@11155111/transfer?address=${address}&uint256=${baseUnits}`

test('before any script runs, the page has the amount, the address, the network and the URI for wallets', async () => {
  const made = await ask(1_250_000)
  const html = await pageOf(made)
  expect(html).toContain('<span id="amount">1.25</span> USDC')
  expect(/<code id="address"[^>]*>(.*?)<\/code>/.exec(html)![1]!.replace(/<.*?>/g, '')).toBe(made.address)
  expect(html).toContain('Send only USDC on Ethereum chain 11155111 (ERC-20)')
  expect(html).toContain('Test network')
  expect(html).toContain(`href="${uriFor(made.address, 1_250_000).replace('&', '&amp;')}"`)
  expect(html).toContain('Waiting for your payment')
  expect(html).toContain(`<time datetime="${made.expires_at}">`)
  expect(html).toMatch(/<noscript><meta http-equiv="refresh" content="\d+"><\/noscript>/)
})

test('the QR code of a token holds the address alone, and its link is the choice beside it; that of a coin holds the link', async () => {
  const [token, coin] = [await ask(42), await ask(1_000_000, 'ETH')]
  const codeOf = async (path: string) => {
    const reply = await get(path)
    expect(reply.headers.get('content-type')).toBe('image/svg+xml')
    return (await readQrSvg(await reply.text())).text
  }
  const link = `${token.page_token}/qr.svg?content=payment_uri`
  expect(await codeOf(`${token.page_token}/qr.svg`)).toBe(token.address)
  expect(await codeOf(link)).toBe(uriFor(token.address, 42))
  const ofCoin = `ethereum:${coin.address}@11155111?value=1000000000000000000`
  expect(await codeOf(`${coin.page_token}/qr.svg`)).toBe(ofCoin)
  expect(await codeOf(`${coin.page_token}/qr.svg?content=payment_uri`)).toBe(ofCoin)
  const shown = (html: string) => [
    html.includes(`<img id="link" src="${link}`),
    !/<a id="wallet" [^>]*hidden/.test(html),
  ]
  expect(shown(await pageOf(token))).toEqual([true, false])
  expect(await pageOf(token)).toContain('The code holds the address alone')
  const html = await pageOf(coin)
  expect(html).toMatch(/<details id="choice" hidden>/)
  expect(html).toMatch(/<a id="wallet" class="button" target="_top" href="ethereum:[^"]*">Open in wallet/)
  expect((await get(`${coin.page_token}/qr.svg?content=address`)).status).toBe(400)
})

test('the page says which coin on which network counts, and has the reference of the order', async () => {
  const made = await ask()
  const html = await pageOf(made)
  expect(html).toContain('<strong id="only">Send only USDC on Ethereum chain 11155111 (ERC-20)</strong>')
  expect(html).toContain(`<bdi>Reference ${made.external_id}</bdi>`)
  expect(await pageOf(await ask(1_000_000, 'ETH'))).toContain(
    '<strong id="only">Send only ETH on Ethereum chain 11155111</strong>',
  )
})

test('the name of a merchant is shown as text', async () => {
  const name = `<script>alert("1")</script> & "Sons" 'n' <img src=x onerror=alert(1)>`
  await money.db.rows('update app.merchant set name = $2 where id = $1', [merchantId, name])
  const html = await pageOf(await ask())
  expect(html).toContain(
    `<bdi>&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt; &amp; &quot;Sons&quot; &#39;n&#39; &lt;img src=x onerror=alert(1)&gt;</bdi>`,
  )
  expect(html.match(/<script/g)).toHaveLength(1)
  expect(html).not.toContain('<img src=x')
})

test('each response, refusals too, forbids caching, framing, referrers, and loading from other origins', async () => {
  const {page_token} = await ask()
  const unknown = 'x'.repeat(32)
  for (const path of [page_token, `${page_token}/state`, `${page_token}/qr.svg`, `${unknown}/state`]) {
    const {headers} = await get(path)
    expect(headers.get('cache-control'), path).toBe('no-store')
    expect(headers.get('referrer-policy'), path).toBe('no-referrer')
    expect(headers.get('x-content-type-options'), path).toBe('nosniff')
    expect(headers.get('x-robots-tag'), path).toBe('noindex')
    expect(headers.get('set-cookie'), path).toBeNull()
    const policy = headers.get('content-security-policy')!.split('; ')
    expect(policy, path).toEqual(
      expect.arrayContaining([
        "default-src 'none'",
        "connect-src 'self'",
        "img-src 'self' data:",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
      ]),
    )
    expect(policy.join(), path).not.toMatch(/unsafe|\*|https?:/)
  }
})

test('the page weighs less than 60 KB, and loads nothing before it is shown but its logo and its code', async () => {
  const html = await pageOf(await ask())
  expect(Buffer.byteLength(html)).toBeLessThan(60_000)
  expect([...html.matchAll(/<(?:link|script)[^>]* (?:href|src)="([^"]*)"/g)].map(([, url]) => url)).toEqual(['data:,'])
})

test('the policy allows exactly the style and the script of the page', async () => {
  const reply = await get((await ask()).page_token)
  const html = await reply.text()
  const policy = reply.headers.get('content-security-policy')!
  for (const kind of ['style', 'script']) {
    const [, text] = new RegExp(`<${kind}>(.*?)</${kind}>`, 's').exec(html)!
    const sheet = kind === 'style' ? " 'self'" : '' // of the merchant's colour
    expect(policy).toContain(`${kind}-src 'sha256-${hash('sha256', text!, 'base64')}'${sheet};`)
  }
  expect(html).not.toMatch(/ style="| on\w+="/)
})

test('the page has the name, the colour, the logo and the links of its merchant, if it has any', async () => {
  const made = await ask()
  const plain = await pageOf(made)
  expect(plain).not.toMatch(/logo\.png|brand\.css|Help/)
  expect((await get(`${made.page_token}/logo.png`)).status).toBe(404)
  await money.db.rows(
    `select app.set_brand($1, '<b>Shop</b>', '#204060', 'https://shop.example/?a=1&b=2', 'https://shop.example/help', '\\x89504e47', false)`,
    [merchantId],
  )
  const html = await pageOf(made)
  expect(html).toContain('<p class="shop"><bdi>&lt;b&gt;Shop&lt;/b&gt;</bdi></p>')
  expect(html).toContain(`<img class="logo" src="${made.page_token}/logo.png" alt="">`)
  expect(html).toContain('<a href="https://shop.example/?a=1&amp;b=2" target="_blank" rel="noopener noreferrer">')
  const logo = await get(`${made.page_token}/logo.png`)
  expect([logo.headers.get('content-type'), Buffer.from(await logo.arrayBuffer()).toString('hex')]).toEqual([
    'image/png',
    '89504e47',
  ])
  const sheet = await get(`${made.page_token}/brand.css`)
  expect([sheet.headers.get('content-type'), await sheet.text()]).toEqual([
    'text/css; charset=utf-8',
    '.button{background:#204060;border-color:#204060;color:#ffffff}',
  ])
  for (const wrong of [`'javascript:x()'`, `'http://shop.example'`])
    await expect(
      money.db.rows(`select app.set_brand($1, null, null, ${wrong}, null, null, false)`, [merchantId]),
    ).rejects.toMatchObject({code: 'SL422'})
  await money.db.rows('delete from app.merchant_brand')
})

test('an unconfirmed payment is shown with its confirmations, and the page asks for nothing more', async () => {
  const made = await ask(1_000_000)
  await money.deposit(made.address, 1_000_000, {final: false})
  await money.block([], [])
  expect(await stateOf(made)).toMatchObject({
    state: 'seen',
    heading: 'Payment seen',
    text: '1 USDC seen. You may close this page.',
    more: expect.stringMatching(/^Confirmations: 2 of 2\. Final in about \d sec\.$/),
    progress: 0.9,
    due: null,
    uri: null,
    poll_seconds: 2.5,
  })
  expect((await get(`${made.page_token}/qr.svg`)).status).toBe(410)
  expect(await pageOf(made)).toContain('<section id="due" hidden>')
})

test('after a partial payment the page, the link and the QR code ask for the rest', async () => {
  const made = await ask(1_000_000)
  await money.deposit(made.address, 250_000)
  await money.deposit(made.address, 100_000, {final: false})
  expect(await stateOf(made)).toMatchObject({
    state: 'partial',
    text: '0.25 USDC received. 0.1 USDC seen. Still missing: 0.65 USDC.',
    more: expect.stringMatching(/^Confirmations: 1 of \d+\. Final in about \d+ sec\.$/),
    due: '0.65',
    uri: uriFor(made.address, 650_000),
  })
  const svg = await (await get(`${made.page_token}/qr.svg?content=payment_uri`)).text()
  expect((await readQrSvg(svg)).text).toBe(uriFor(made.address, 650_000))
  const html = await pageOf(made)
  expect(html).toContain('<bdi dir="ltr">1 USDC</bdi>')
  expect(html).toContain('<span id="amount">0.65</span> USDC')
})

test('a paid request is shown with the transaction, asks for nothing, and stops polling', async () => {
  const made = await ask(1_000_000)
  const txid = `0x${'ab'.repeat(32)}`
  await money.block([{txid, amount: 1_000_000n, recipient: made.address}], [])
  await money.finalise()
  const url = `https://sepolia.etherscan.io/tx/${txid}`
  expect(await stateOf(made)).toEqual({
    state: 'paid',
    external_id: made.external_id,
    wallet: null,
    time_left: null,
    progress: null,
    more: null,
    receipt: [
      ['Paid to', expect.any(String), null],
      ['Reference', made.external_id, null],
      ['Asked for', '1 USDC', null],
      ['Received', '1 USDC', null],
      ['Paid on', expect.stringMatching(/ UTC$/), null],
      ['Network', 'Ethereum chain 11155111 (ERC-20)', null],
      ['Address', made.address, null],
      ['Transaction (1 USDC)', txid, url],
    ],
    heading: 'Paid',
    text: '1 USDC received.',
    due: null,
    uri: null,
    code: null,
    seconds_left: null,
    txid,
    transaction_url: url,
    transaction: '0xabababab…abababab',
    poll_seconds: 60,
  })
  const html = await pageOf(made)
  expect(html).toContain(
    `<dt>Transaction (1 USDC)</dt><dd><a href="${url}" target="_blank" rel="noopener noreferrer"><bdi>${txid}</bdi></a></dd>`,
  )
  expect(html).not.toContain('http-equiv="refresh"')
})

test('an overpayment is shown to the last digit', async () => {
  const made = await ask(1_000_000)
  await money.deposit(made.address, 1_000_001)
  expect(await stateOf(made)).toMatchObject({
    state: 'overpaid',
    text: '1.000001 USDC received. That is 0.000001 USDC more than was asked for; only the merchant can return it.',
    poll_seconds: 60,
  })
})

test('a cancelled request asks for nothing, and what comes all the same is shown as late', async () => {
  const made = await ask()
  await money.api.query('select app.cancel_payment_request($1, $2)', [merchantId, made.external_id])
  expect(await stateOf(made)).toMatchObject({
    state: 'cancelled',
    heading: 'This request was cancelled',
    due: null,
    uri: null,
  })
  expect((await get(`${made.page_token}/qr.svg`)).status).toBe(410)
  await money.deposit(made.address, 1_000_000)
  const text =
    '1 USDC received. That is enough: nothing more is due. What came after this request had ended, or was in no block in time, counts all the same.'
  expect(await stateOf(made)).toMatchObject({state: 'late', text, due: null})
})

test('the page links back to the return_url, if there is one', async () => {
  const made = await ask()
  expect(await pageOf(made)).not.toContain('Back to')
  await money.db.rows('update app.payment_request set return_url = $2 where external_id = $1', [
    made.external_id,
    'https://shop.example/?a="1"&b',
  ])
  expect(await pageOf(made)).toContain(
    '<a href="https://shop.example/?a=&quot;1&quot;&amp;b" class="button back" target="_top" rel="noopener noreferrer"><bdi>Back to ',
  )
})

test('an expired request asks for nothing, and shows an underpayment', async () => {
  const [nothing, little] = [await ask(), await ask()]
  await money.deposit(little.address, 1)
  await requests.expire([nothing.id, little.id])
  expect(await stateOf(nothing)).toMatchObject({
    state: 'expired',
    due: null,
    uri: null,
    seconds_left: null,
    poll_seconds: 15,
  })
  expect(await stateOf(little)).toMatchObject({
    state: 'underpaid',
    text: '0.000001 USDC received. Still missing: 0.999999 USDC. The request has ended. Please send nothing any more, and ask the merchant how to go on.',
    due: null,
  })
})

test('a request expires at its time, even if no worker has processed it', async () => {
  const made = await ask()
  await money.db.rows(`update app.payment_request set expires_at = now(), decide_at = now() where id = $1`, [made.id])
  expect(await requests.state(made.id)).toMatchObject({status: 'awaiting'})
  expect(await stateOf(made)).toMatchObject({state: 'expired', due: null})
})

test('a late payment counts, and is shown as late', async () => {
  const [all, rest] = [await ask(1_000_000), await ask(1_000_000)]
  await money.deposit(rest.address, 400_000)
  await requests.expire([all.id, rest.id], '1 minute')
  await money.deposit(rest.address, 600_000, {final: false})
  expect(await stateOf(rest)).toMatchObject({
    state: 'late',
    heading: 'Payment seen, after the end', // not yet "Paid": nothing of it is final
    text: '0.4 USDC received. 0.6 USDC seen. What came after this request had ended counts once it is final.',
    due: null,
    poll_seconds: 2.5,
  })
  await money.deposit(all.address, 1_000_000)
  const text =
    '1 USDC received. That is enough: nothing more is due. What came after this request had ended, or was in no block in time, counts all the same.'
  for (const made of [all, rest]) expect(await stateOf(made)).toMatchObject({state: 'late', text, poll_seconds: 60})
})

test('after a request expired during a partial payment, the missing rest is shown and not asked for', async () => {
  const made = await ask(1_000_000)
  await money.deposit(made.address, 400_000, {final: false})
  await requests.expire([made.id])
  expect(await stateOf(made)).toMatchObject({
    state: 'partial',
    text: '0.4 USDC seen. Still missing: 0.6 USDC. The request has ended: please ask the merchant before you send more.',
    due: null,
    uri: null,
  })
})

test('the page asks again for a payment that left the chain, and says that it may come back', async () => {
  const made = await ask(1_000_000)
  await money.deposit(made.address, 1_000_000, {final: false})
  expect(await stateOf(made)).toMatchObject({state: 'seen', due: null})
  await money.eth.write({drop: 1, add: [[], []]})
  expect(await stateOf(made)).toMatchObject({
    state: 'awaiting',
    text: 'A payment that was seen here is in no block any more. If it comes back, it counts: ask the merchant before you pay again.',
    due: '1',
    uri: uriFor(made.address, 1_000_000),
  })
  await money.deposit(made.address, 1_000_000, {final: false})
  expect(await stateOf(made)).toMatchObject({state: 'seen', text: '1 USDC seen. You may close this page.'})
})

test('the page speaks the language of the browser, or the one that it was switched to, and its state does, too', async () => {
  const made = await ask()
  const languageOf = async (path: string, accepted?: string) => {
    const html = await (await get(path, accepted ? {headers: {'accept-language': accepted}} : {})).text()
    return [/<html lang="(..)"( dir="rtl")?>/.exec(html)!.slice(1), /<h1 id="heading"[^>]*>(.*?)</.exec(html)![1]]
  }
  const {page_token} = made
  expect(await languageOf(page_token)).toEqual([['en', undefined], 'Waiting for your payment'])
  expect(await languageOf(page_token, 'xx, de-CH;q=0.8, en;q=0.5')).toEqual([
    ['de', undefined],
    'Warten auf Ihre Zahlung',
  ])
  expect(await languageOf(page_token, 'zh-TW')).toEqual([['zh', undefined], '等待您的付款'])
  expect(await languageOf(`${page_token}?lang=ar`, 'de')).toEqual([['ar', ' dir="rtl"'], 'في انتظار دفعتك'])
  for (const strange of ['lang=xx', 'lang=en&lang=de', 'lang[]=de', 'utm_source=mail'])
    expect((await languageOf(`${page_token}?${strange}`))[0], strange).toEqual(['en', undefined])
  expect(JSON.parse(await (await get(`${page_token}/state?lang=ja`)).text()).heading).toBe('お支払いを待っています')
  expect(await (await get(`${'x'.repeat(32)}?lang=tr`)).text()).toContain('Burada bir ödeme yok')
})

test('only the sites that its merchant names show the page in a frame; its other responses nobody does', async () => {
  const {page_token} = await ask()
  const ancestors = async (path: string) =>
    /frame-ancestors ([^;]*)/.exec((await get(path)).headers.get('content-security-policy')!)![1]
  await money.db.rows(`select app.set_payment_page_sites($1, '{https://shop.example,http://localhost:3000}')`, [
    merchantId,
  ])
  expect(await ancestors(page_token)).toBe('http://localhost:3000 https://shop.example')
  expect(await ancestors(`${page_token}/state`)).toBe("'none'")
  for (const wrong of [
    'https://shop.example/path',
    'http://shop.example',
    'https://*.example',
    "https://a' 'self",
    'https://a;script-src *',
  ])
    await expect(
      money.db.rows(`select app.set_payment_page_sites($1, $2)`, [merchantId, [wrong]]),
      wrong,
    ).rejects.toMatchObject({
      code: 'SL422',
    })
  await money.db.rows(`select app.set_payment_page_sites($1, '{}')`, [merchantId])
  expect(await ancestors(page_token)).toBe("'none'")
})

test('a wallet in the browser is asked for exactly what is due: the call of the token, or the value of the coin', async () => {
  const [token, coin] = [await ask(1_250_000), await ask(1_000_000, 'ETH')]
  const {wallet} = await stateOf(token)
  expect(wallet).toMatchObject({chain_id: '0xaa36a7', to: usdc, value: '0x0'})
  const {functionName, args} = decodeFunctionData({abi: erc20Abi, data: wallet.data})
  expect([functionName, args]).toEqual(['transfer', [token.address, 1_250_000n]])
  expect((await stateOf(coin)).wallet).toEqual({
    chain_id: '0xaa36a7',
    to: coin.address,
    value: '0xde0b6b3a7640000',
    data: '0x',
  })
})

test('a stream that nobody reads any more is forgotten, and of more than fifty for a page the oldest end', async () => {
  const made = await ask()
  const opened: AbortController[] = []
  const ended = {count: 0}
  const open = async () => {
    const controller = new AbortController()
    opened.push(controller)
    const reply = await fetch(`${api.url}/pay/${made.page_token}/events`, {signal: controller.signal})
    expect(reply.status).toBe(200)
    void (async () => {
      for await (const _ of newsOf(reply));
      ended.count += 1
    })().catch(() => {})
  }
  // Some browsers go before they have an answer.
  for (let n = 0; n < 30; n++) {
    const controller = new AbortController()
    const gone = fetch(`${api.url}/pay/${made.page_token}/events`, {signal: controller.signal})
    setTimeout(() => controller.abort(), n % 4)
    await gone.catch(() => {})
  }
  for (let n = 0; n < 52; n++) await open()
  await until(async () => ended.count === 2, {timeoutMs: 10_000, what: 'the oldest two to end'})
  await money.deposit(made.address, 1_000, {final: false}) // news for the others; nothing fails
  for (const controller of opened) controller.abort()
  expect((await get(`${made.page_token}/state`)).status).toBe(200)
})

test('a frame can show why a page cannot be shown, and so tries again', async () => {
  const {headers, status} = await get('x'.repeat(32))
  expect([status, /frame-ancestors ([^;]*)/.exec(headers.get('content-security-policy')!)![1]]).toEqual([404, '*'])
  expect(headers.get('content-security-policy')).not.toContain('script-src')
})

test('of a request that is paid, a second payment is shown as it comes, and becomes final', async () => {
  const made = await ask(1_000_000)
  await money.deposit(made.address, 1_000_000)
  await money.deposit(made.address, 400_000, {final: false})
  expect(await stateOf(made)).toMatchObject({
    state: 'paid',
    text: '1 USDC received. 0.4 USDC seen.',
    poll_seconds: 2.5,
  })
  expect(await pageOf(made)).toContain('http-equiv="refresh"')
  await money.finalise()
  expect(await stateOf(made)).toMatchObject({state: 'overpaid', poll_seconds: 60})
})

test('what is on its way is the transaction that is named, and what came late is late from the first', async () => {
  const made = await ask(1_000_000)
  await money.deposit(made.address, 400_000)
  await requests.expire([made.id], '1 minute')
  const txid = money.newTxid()
  await money.block([{txid, amount: 600_000n, recipient: made.address}], [])
  expect(await stateOf(made)).toMatchObject({state: 'late', heading: 'Payment seen, after the end', txid})
  const whole = await ask(1_000_000)
  await requests.expire([whole.id], '1 minute')
  await money.deposit(whole.address, 1_000_000, {final: false})
  expect(await stateOf(whole)).toMatchObject({state: 'late', heading: 'Payment seen, after the end'})
})

test.each(['', '/', '/{token}/', '/{token}/state/more'])(
  'a person who comes to /pay%s reads what is wrong',
  async path => {
    const reply = await fetch(`${api.url}/pay${path.replace('{token}', (await ask()).page_token)}`)
    expect([reply.status, reply.headers.get('content-type')]).toEqual([404, 'text/html; charset=utf-8'])
    expect(await reply.text()).toContain('<h1>There is no payment here</h1>')
  },
)

test('what else came to the address is said to the payer until it is decided, if it is a token that is known', async () => {
  const made = await ask(1_000_000)
  const says = async () => (await stateOf(made)).text.includes('Something else was sent to this address.')
  await money.block(
    [{txid: money.newTxid(), token: '0x0000000000000000000000000000000000000bad', amount: 5n, recipient: made.address}],
    [],
  )
  expect(await says()).toBe(false) // as a rule it is spam
  const coin = money.newTxid()
  await money.block([{txid: coin, token: 'ETH', amount: 10n ** 16n, recipient: made.address}], [])
  expect(await says()).toBe(true)
  await money.finalise()
  await money.db.rows('select app.credit_unattributed(id) from app.deposit where txid = $1', [coin])
  expect(await says()).toBe(false)
})

test('a stream that cannot say what is new says that something is, and the page asks', async () => {
  const made = await ask(1_000_000)
  const news = newsOf(await get(`${made.page_token}/events`))
  await news.next() // what it begins with
  await money.db.rows('revoke execute on function app.payment_page from sluice_api')
  try {
    await money.deposit(made.address, 1_000_000, {final: false})
    expect((await news.next()).value).toBe('event: news\ndata:')
  } finally {
    await money.db.rows('grant execute on function app.payment_page to sluice_api')
    await news.return(undefined)
  }
})

test('a stream tells a page at once what is new, in its language, and ends with the service', async () => {
  const made = await ask(1_000_000)
  expect((await get(`${'x'.repeat(32)}/events`)).status).toBe(404)
  const reply = await get(`${made.page_token}/events?lang=de`)
  expect(reply.headers.get('content-type')).toBe('text/event-stream')
  const news = newsOf(reply)
  const told = async () => {
    const [, data] = /^event: news\ndata:(.*)$/.exec((await news.next()).value ?? '') ?? []
    expect(JSON.parse(data!)).toEqual(await (await get(`${made.page_token}/state?lang=de`)).json())
    return JSON.parse(data!).state
  }
  const {value: first} = await news.next()
  expect(first).toContain('"heading":"Warten auf Ihre Zahlung"') // its time has a second less by now
  await money.deposit(made.address, 1_000_000, {final: false})
  expect(await told()).toBe('seen')
  await money.block([], []) // another confirmation
  expect(await told()).toBe('seen')
  await money.finalise()
  expect(await told()).toBe('paid')
  const another = await startApi(money.db)
  const ending = newsOf(await fetch(`${another.url}/pay/${made.page_token}/events`))
  await ending.next()
  await another.close()
  expect((await ending.next()).done).toBe(true)
})

test.each([['x'.repeat(32)], ['short'], ['%00'.repeat(32)], [`${"'".repeat(31)}%22`]])(
  'a link with the token %s leads to a page that says the link is invalid',
  async token => {
    const reply = await get(token)
    expect([reply.status, reply.headers.get('content-type')]).toEqual([404, 'text/html; charset=utf-8'])
    expect(await reply.text()).toContain('<h1>There is no payment here</h1>')
    const state = await get(`${token}/state`)
    expect([state.status, await state.json()]).toMatchObject([404, {error: 'payment_request_not_found'}])
  },
)

test('other methods are refused, and no key is required', async () => {
  const {page_token} = await ask()
  for (const path of [page_token, `${page_token}/state`, `${page_token}/qr.svg`]) {
    expect((await get(path, {method: 'HEAD'})).status).toBe(200)
    const reply = await get(path, {method: 'POST'})
    expect([reply.status, reply.headers.get('allow')]).toEqual([405, 'GET, HEAD, OPTIONS'])
  }
})

test('while the database is away, the page asks people to wait, and retries', async () => {
  const {page_token} = await ask()
  await money.db.rows('revoke execute on function app.payment_page from sluice_api')
  try {
    const reply = await get(page_token)
    const html = await reply.text()
    expect([reply.status, reply.headers.get('content-type')]).toEqual([500, 'text/html; charset=utf-8'])
    expect(html).toContain('<h1>This page cannot be shown at the moment</h1>')
    expect(html).toContain('<meta http-equiv="refresh"')
    expect(html).toMatch(/the operator finds the cause in the log by the id [0-9a-f-]{36}/)
  } finally {
    await money.db.rows('grant execute on function app.payment_page to sluice_api')
  }
})

test('a loop on a page, or on tokens that do not exist, is slowed down, and slows nobody else', async () => {
  const [looped, other] = [await ask(), await ask()]
  const stormOf = async (path: () => string) => {
    const began = performance.now()
    const replies = await Promise.all(Array.from({length: 300}, async () => (await get(path())).status))
    return {refused: replies.filter(status => status === 429).length, tookMs: performance.now() - began}
  }
  const storm = await stormOf(() => `${looped.page_token}/state`)
  expect(storm.refused).toBeGreaterThanOrEqual(60) // one of 4,096 groups of pages: an earlier test may have used some of its allowance
  expect(storm.tookMs).toBeGreaterThan(1000)
  expect((await get(`${other.page_token}/state`)).status).toBe(200)
  const refusal = await get(looped.page_token)
  expect([refusal.status, Number(refusal.headers.get('retry-after'))]).toEqual([429, expect.any(Number)])
  expect(await refusal.text()).toContain('It tries again automatically')
  let n = 0
  expect((await stormOf(() => String(n++).padStart(32, 'x'))).refused).toBeGreaterThan(50)
  expect((await get(`${other.page_token}/state`)).status).toBe(200)
})

/** The events of a stream; comments that keep it open are left out. */
async function* newsOf(reply: Response): AsyncGenerator<string> {
  let text = ''
  for await (const chunk of reply.body!.pipeThrough(new TextDecoderStream())) {
    text += chunk
    const events = text.split('\n\n')
    text = events.pop()!
    yield* events.filter(event => event !== ':')
  }
}

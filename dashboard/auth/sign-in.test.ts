// Signing in, as people do it: real requests, and a real database.
import {createHash} from 'node:crypto'
import {afterAll, beforeAll, expect, test} from 'vitest'
import {type TestDatabase, testDatabase} from '../../test/support/database.ts'
import {makeMerchant} from '../../test/support/people.ts'
import {
  Browser,
  invite,
  join,
  password,
  type SignInServer,
  setUpAuthenticator,
  startSignIn,
  step,
} from '../../test/support/sign-in.ts'
import {codeAt} from './totp.ts'

let db: TestDatabase
let server: SignInServer
let merchant: string
/** Somebody with a second factor, signed in. */
let ada: Browser
let secret: string
let codes: string[]

beforeAll(async () => {
  db = await testDatabase()
  server = await startSignIn(db)
  merchant = await makeMerchant(db)
  ada = await join(server, db, merchant, 'Ada@Acme.test')
  ;({secret, codes} = await setUpAuthenticator(ada))
})

afterAll(async () => {
  await server.close()
  await db.drop()
})

const cookie = '__Host-sluice.session_token'
const tokenOf = (browser: Browser) => decodeURIComponent(browser.cookies.get(cookie) ?? '').split('.')[0]
const alertOf = (text: string) => /role="alert"[^>]*>([^<]+)</.exec(text)?.[1]
/** What the audit log says last of an action. */
const logged = async (action: string) =>
  (
    await db.rows(
      'select outcome, ip, merchant_id, user_id from dashboard.audit_entry where action = $1 order by id desc',
      [action],
    )
  )[0]

/** A browser that showed the password. */
async function withPassword(browser = new Browser(server)): Promise<Browser> {
  expect(await browser.post('/sign-in', {email: 'ada@acme.test', password})).toMatchObject({
    status: 303,
    location: '/second-factor?next=%2F',
  })
  return browser
}

/** Each code works once, and of the steps around now there are only three. */
const forgetUsedCodes = () => db.rows('delete from dashboard.used_code')
const forgetAttempts = () => db.rows('delete from dashboard.attempt')

test('an invitation is accepted once, whoever of two is faster, and nothing of the other stays', async () => {
  const link = await invite(db, merchant)
  const people = ['first@acme.test', 'second@acme.test'].map(email => ({email, browser: new Browser(server)}))
  const replies = await Promise.all(people.map(({email, browser}) => browser.post(link, {name: 'X', email, password})))
  expect(replies.map(({status}) => status).sort()).toEqual([303, 410])
  const rows = await db.rows(
    `select (select count(*)::int from auth.account a where a."userId" = u.id) as accounts,
       (select count(*)::int from dashboard.member m where m.user_id = u.id) as members
     from auth."user" u where u.email = any($1)`,
    [people.map(({email}) => email)],
  )
  expect(rows).toEqual([{accounts: 1, members: 1}])
  expect(await new Browser(server).get(link)).toMatchObject({
    status: 410,
    text: expect.stringContaining('This invitation has ended'),
  })
})

test('an unknown link is 404, one of yesterday 410, and opening one changes nothing', async () => {
  expect((await ada.get(`/invitation/${'A'.repeat(43)}`)).status).toBe(404)
  expect((await ada.get('/invitation/%00')).status).toBe(404)
  const link = await invite(db, merchant)
  for (let n = 0; n < 2; n++) expect((await new Browser(server).get(link)).status).toBe(200)
  const hash = createHash('sha256').update(link.split('/').at(-1)!).digest()
  await db.rows(`update dashboard.invitation set expires_at = now() where token_hash = $1`, [hash])
  expect((await new Browser(server).post(link, {name: 'X', email: 'late@acme.test', password})).status).toBe(410)
})

test('an invitation asks for a name, an address that nobody has, and a password of twelve characters', async () => {
  const link = await invite(db, merchant)
  const good = {name: 'Bob', email: 'bob@acme.test', password}
  for (const [wrong, why] of [
    [{name: ' '}, 'Please type your name.'],
    [{email: 'bob'}, 'Please type a whole e-mail address.'],
    [{email: 'ADA@acme.test'}, 'This e-mail address is taken. Please use another one.'],
    [{password: 'elevenchars'}, 'A password has at least 12 characters.'],
    [{password: 'aaaaaaaaaaaaaaaa'}, 'A password has at least five different characters.'],
    [{password: 'BOB@acme.test!'}, 'Your e-mail address is no good password.'],
  ] as const) {
    const {status, text} = await new Browser(server).post(link, {...good, ...wrong})
    expect([status, alertOf(text)]).toEqual([422, why])
  }
  expect((await new Browser(server).post(link, good)).status).toBe(303)
})

test('an invitation cannot be used by fixation: whoever accepts it has a new session, and the one before it ends', async () => {
  const planted = await withPassword()
  const before = tokenOf(planted)
  const browser = new Browser(server)
  browser.cookies.set(cookie, planted.cookies.get(cookie)!)
  const {status, location} = await browser.post(await invite(db, merchant), {
    name: 'C',
    email: 'carl@acme.test',
    password,
  })
  expect({status, location}).toEqual({status: 303, location: '/security'})
  expect(tokenOf(browser)).not.toBe(before)
  expect((await planted.get('/security')).location).toBe('/sign-in?next=%2Fsecurity')
})

test('a session without a second factor reaches no page, and cannot set one up if the person has one', async () => {
  const browser = await withPassword()
  const asked = server.asked.length
  expect((await browser.get('/deposits?chain=ETH')).location).toBe('/second-factor?next=%2Fdeposits%3Fchain%3DETH')
  expect((await browser.get('/security')).location).toBe('/second-factor?next=%2Fsecurity')
  expect((await browser.post('/security/authenticator')).location).toBe('/second-factor?next=%2Fsecurity')
  expect((await browser.get('/auth/passkey/generate-register-options')).status).toBe(401)
  expect(server.asked).toHaveLength(asked)

  const fresh = await join(server, db, merchant, 'dora@acme.test')
  expect((await fresh.get('/deposits')).location).toBe('/security')
  expect((await fresh.get('/second-factor')).location).toBe('/security')
  expect((await fresh.get('/security')).text).toContain('set up a second factor')
})

test('showing a second factor gives the session another token, and the old one is dead', async () => {
  await forgetUsedCodes()
  const browser = await withPassword()
  const old = new Browser(server)
  old.cookies.set(cookie, browser.cookies.get(cookie)!)
  const reply = await browser.post('/second-factor', {code: codeAt(secret, step()), next: '/payouts?x=1'})
  expect(reply).toMatchObject({status: 303, location: '/payouts?x=1'})
  expect(reply.headers.getSetCookie()).toContainEqual(
    expect.stringMatching(
      /^__Host-sluice\.session_token=[^;]+; Max-Age=43200; Path=\/; HttpOnly; Secure; SameSite=Lax$/,
    ),
  )
  expect(tokenOf(browser)).not.toBe(tokenOf(old))
  expect((await old.get('/')).location).toBe('/sign-in')
  expect((await browser.get('/')).status).toBe(200)
  expect(await logged('sign_in.second_factor')).toMatchObject({
    outcome: 'done',
    ip: browser.address,
    merchant_id: merchant,
  })
})

test('a code of an authenticator is accepted once, also if it is sent twice at the same time; so is a recovery code', async () => {
  await forgetUsedCodes()
  const browsers = [await withPassword(), await withPassword()]
  for (const code of [codeAt(secret, step()), codes.pop()!.toUpperCase().replaceAll('-', ' ')]) {
    const replies = await Promise.all(browsers.map(browser => browser.post('/second-factor', {code, next: '/'})))
    expect(replies.map(({status}) => status).sort()).toEqual([303, 401])
  }
})

test('where to go after signing in is a path of the dashboard, whatever the link says', async () => {
  for (const next of [
    '//evil.example',
    '/\\evil.example',
    'https://evil.example',
    '/a\nb',
    '\t/x',
    `/${'x'.repeat(5000)}`,
  ]) {
    const {text} = await new Browser(server).get(`/sign-in?${new URLSearchParams({next})}`)
    expect(text).toContain('name="next" value="/"')
  }
  expect((await new Browser(server).get('/sign-in?next=/a&next=/b')).text).toContain('name="next" value="/"')
})

test('an unknown e-mail address and a wrong password look the same', async () => {
  const replies = []
  for (const email of ['ada@acme.test', 'nobody@acme.test']) {
    const {status, text} = await new Browser(server).post('/sign-in', {email, password: 'wrong wrong wrong'})
    replies.push({status, text: text.replaceAll(email, '')})
  }
  expect(replies[0]).toEqual(replies[1])
  expect(alertOf(replies[0]!.text)).toBe('This e-mail address and this password do not belong together.')
  expect(await logged('sign_in')).toMatchObject({outcome: 'wrong_password', user_id: null, merchant_id: null})
  expect(JSON.stringify(await db.rows('select * from dashboard.audit_entry'))).not.toContain('@')
})

test('eleven wrong passwords lock a person for a while, whatever the addresses; but not in a browser of that person', async () => {
  await forgetAttempts()
  const guesses = Array.from({length: 12}, (_, n) =>
    new Browser(server, `198.51.100.${n}`).post('/sign-in', {email: 'ADA@acme.test', password: 'wrong wrong wrong'}),
  )
  const statuses = (await Promise.all(guesses)).map(({status}) => status)
  expect(statuses.filter(status => status === 401)).toHaveLength(10)
  const locked = await new Browser(server).post('/sign-in', {email: 'ada@acme.test', password})
  expect([locked.status, alertOf(locked.text)]).toEqual([429, expect.stringContaining('wait 15 minutes')])
  expect(await logged('sign_in')).toMatchObject({outcome: 'wrong_password', merchant_id: merchant})

  const known = new Browser(server)
  known.cookies.set('__Host-sluice.browser', ada.cookies.get('__Host-sluice.browser')!)
  await withPassword(known)
  await db.rows(`update dashboard.attempt set at = at - interval '15 minutes'`)
  await withPassword()
})

test('eleven wrong codes lock the second factor of a person for a while', async () => {
  await forgetAttempts()
  const browser = await withPassword()
  const guess = () => browser.post('/second-factor', {code: 'aaaa-bbbb-cccc-dddd', next: '/'})
  const statuses = (await Promise.all(Array.from({length: 12}, guess))).map(({status}) => status)
  expect(statuses.sort()).toEqual([...Array(10).fill(401), 429, 429])
  await forgetUsedCodes()
  expect((await browser.post('/second-factor', {code: codeAt(secret, step()), next: '/'})).status).toBe(429)

  // whoever guesses keeps out neither a browser of the person, nor a session in which a second factor was shown
  await forgetUsedCodes()
  expect((await ada.post('/second-factor', {code: codeAt(secret, step()), next: '/'})).status).toBe(303)
  const known = new Browser(server)
  known.cookies.set('__Host-sluice.browser', ada.cookies.get('__Host-sluice.browser')!)
  await withPassword(known)
  await forgetUsedCodes()
  expect((await known.post('/second-factor', {code: codeAt(secret, step()), next: '/'})).status).toBe(303)
  await forgetAttempts()
})

test('a link of an invitation does not tell who else signs in, beyond ten guesses', async () => {
  const link = await invite(db, merchant)
  const guess = () => new Browser(server).post(link, {name: 'X', email: 'ada@acme.test', password})
  const statuses = (await Promise.all(Array.from({length: 12}, guess))).map(({status}) => status)
  expect(statuses.sort()).toEqual([...Array(10).fill(422), 429, 429])
  await forgetAttempts()
})

test('one client address may try a limited number of passwords each minute', async () => {
  const browser = new Browser(server, '198.51.100.99')
  for (let n = 0; n < 20; n++) await browser.post('/sign-in', {email: `not an address ${n}`, password: 'x'})
  const {status, text} = await browser.post('/sign-in', {email: 'ada@acme.test', password})
  expect([status, alertOf(text)]).toEqual([
    429,
    'There were too many attempts from your network. Please wait a minute.',
  ])
})

test('NUL bytes, half characters and long fields get a clear error, on every form', async () => {
  const link = await invite(db, merchant)
  const forms: [Browser, string, Record<string, string>][] = [
    [new Browser(server), '/sign-in', {email: 'ada@acme.test', password}],
    [new Browser(server), link, {name: 'X', email: 'x@acme.test', password}],
    [ada, '/second-factor', {code: '123456'}],
    [ada, '/security/authenticator/confirm', {code: '123456', sealed: 'x'}],
    [ada, '/security/password', {present: password, password}],
    [ada, '/security/sessions/end', {id: 'x'}],
    [ada, '/security/passkeys/remove', {id: 'x'}],
  ]
  for (const [browser, path, form] of forms)
    for (const field of Object.keys(form))
      for (const bad of ['a\0b', 'x'.repeat(5000)]) {
        const {status, text} = await browser.post(path, {...form, [field]: bad})
        expect([path, field, status, text.includes('</html>')]).toEqual([
          path,
          field,
          expect.toBeOneOf([400, 422]),
          true,
        ])
      }
  expect((await ada.post('/sign-in', 'x'.repeat(70_000))).status).toBe(413)
  expect((await ada.post('/sign-in', '{', {'content-type': 'application/json'})).status).toBe(400)
  expect((await ada.post('/sign-in', {})).status).toBe(400)
  const passkey = {response: {id: 'a\0b', rawId: 'x', response: {}, type: 'public-key'}}
  const json = {'content-type': 'application/json'}
  expect((await ada.post('/auth/passkey/verify-authentication', JSON.stringify(passkey), json)).status).toBe(400)
  expect(
    (await ada.post('/auth/passkey/verify-registration', JSON.stringify({...passkey, name: 'x'}), json)).status,
  ).toBe(400)
})

test('signing out ends the session at once', async () => {
  const browser = await withPassword()
  const before = new Browser(server)
  before.cookies.set(cookie, browser.cookies.get(cookie)!)
  expect(await browser.post('/sign-out')).toMatchObject({status: 303, location: '/sign-in'})
  expect(browser.cookies.has(cookie)).toBe(false)
  expect((await before.get('/security')).status).toBe(303)
  expect(await logged('sign_out')).toMatchObject({outcome: 'done', merchant_id: merchant})
})

test('a cookie that was altered is none', async () => {
  const browser = new Browser(server)
  browser.cookies.set(
    cookie,
    ada.cookies.get(cookie)!.replace(/^./, first => (first === 'a' ? 'b' : 'a')),
  )
  expect((await browser.get('/')).location).toBe('/sign-in')
  browser.cookies.set(cookie, tokenOf(ada)!)
  expect((await browser.get('/')).location).toBe('/sign-in')
})

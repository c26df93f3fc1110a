// The security page: what it changes, for whom, and what ends then.
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
let ada: Browser
let secret: string
let codes: string[]

beforeAll(async () => {
  db = await testDatabase()
  server = await startSignIn(db)
  merchant = await makeMerchant(db)
  ada = await join(server, db, merchant, 'ada@acme.test')
  ;({secret, codes} = await setUpAuthenticator(ada))
})

afterAll(async () => {
  await server.close()
  await db.drop()
})

const alertOf = (text: string) => /role="alert"[^>]*>([^<]+)</.exec(text)?.[1]
const isSignedIn = async (browser: Browser) => (await browser.get('/')).status === 200
const userOf = async (email: string) =>
  (await db.rows<{id: string}>('select id from auth."user" where email = $1', [email]))[0]!.id
const logged = async (action: string) =>
  await db.rows('select outcome, target from dashboard.audit_entry where action = $1 order by id', [action])

/** Another browser of Ada's. */
async function another(secretNow = password): Promise<Browser> {
  const browser = new Browser(server)
  await browser.post('/sign-in', {email: 'ada@acme.test', password: secretNow})
  expect((await browser.post('/second-factor', {code: codes.pop()!})).status).toBe(303)
  return browser
}

/** As if the second factor had been shown eleven minutes ago, in every session. */
const later = () => db.rows(`update auth.session set "secondFactorAt" = "secondFactorAt" - interval '11 minutes'`)

async function addPasskey(userId: string, name: string): Promise<string> {
  const [row] = await db.rows<{id: string}>(
    `insert into auth.passkey (name, "publicKey", "userId", "credentialID", counter, "deviceType", "backedUp")
     values ($2, 'x', $1, gen_random_uuid()::text, 0, 'singleDevice', false) returning id`,
    [userId, name],
  )
  return row!.id
}

test('an authenticator and recovery codes are stored as nobody can use them', async () => {
  const [row] = await db.rows(
    'select secret, (select count(*)::int from auth.recovery_code) as codes from auth.authenticator',
  )
  expect(row).toMatchObject({codes: 10})
  expect(JSON.stringify(row)).not.toContain(secret)
  expect(await logged('authenticator.set_up')).toEqual([{outcome: 'done', target: null}])
})

test('sessions are listed; one is ended, then all others', async () => {
  const [one, two, three] = [await another(), await another(), await another()]
  const {text} = await ada.get('/security')
  expect(text).toContain('from 203.0.113.1')
  const ids = [...text.matchAll(/sessions\/end"><input type="hidden" name="id" value="([^"]+)"/g)].map(([, id]) => id!)
  expect(ids).toHaveLength(3)
  await ada.post('/security/sessions/end', {id: ids[0]!})
  expect([await isSignedIn(one), await isSignedIn(two), await isSignedIn(three)]).toEqual([true, true, false]) // the newest stands first
  await ada.post('/security/sessions/end-others')
  expect([await isSignedIn(one), await isSignedIn(two), await isSignedIn(ada)]).toEqual([false, false, true])
  expect(await logged('session.end')).toEqual([
    {outcome: 'done', target: ids[0]},
    {outcome: 'done', target: 'all others'},
  ])
})

test('a session ends a week after the person signed in, however it is used', async () => {
  const used = await another()
  const [session] = await db.rows<{id: string}>('select id from auth.session order by "createdAt" desc limit 1')
  const signedIn = (before: string) =>
    db.rows(`update auth.session set "createdAt" = now() - $2::interval where id = $1`, [session!.id, before])
  const age = async () =>
    (await db.rows(`select ("expiresAt" - "createdAt")::text as age from auth.session where id = $1`, [session!.id]))[0]
  await signedIn('6 days 23 hours')
  expect(await isSignedIn(used)).toBe(true) // which prolongs it
  expect(await age()).toEqual({age: '7 days'})
  await signedIn('7 days')
  expect(await isSignedIn(used)).toBe(false)
})

test('nobody ends the session, or removes the passkey, of another person', async () => {
  const eve = await join(server, db, merchant, 'eve@acme.test')
  await setUpAuthenticator(eve)
  const passkey = await addPasskey(await userOf('ada@acme.test'), 'phone')
  const [session] = await db.rows<{id: string}>(`select id from auth.session where "userId" = $1`, [
    await userOf('ada@acme.test'),
  ])
  await eve.post('/security/sessions/end', {id: session!.id})
  expect((await eve.post('/security/passkeys/remove', {id: passkey})).status).toBe(409)
  expect(await isSignedIn(ada)).toBe(true)
  expect((await ada.get('/security')).text).toContain('phone')
  expect((await ada.post('/security/passkeys/remove', {id: passkey})).location).toBe('/security?done=passkey')
})

test('the last second factor cannot be removed, not even if two passkeys are removed at once', async () => {
  const fay = await join(server, db, merchant, 'fay@acme.test')
  const id = await userOf('fay@acme.test')
  const passkeys = [await addPasskey(id, 'a'), await addPasskey(id, 'b')]
  await db.rows(`update auth.session set "secondFactorAt" = now() where "userId" = $1`, [id])
  const replies = await Promise.all(passkeys.map(passkey => fay.post('/security/passkeys/remove', {id: passkey})))
  expect(replies.map(({status}) => status).sort()).toEqual([303, 409])
  expect(replies.find(({status}) => status === 409)!.text).toContain('This is your last second factor')
})

test('ten minutes after the second factor was shown, neither it nor the password changes until it is shown again', async () => {
  await later()
  for (const path of ['/security/authenticator', '/security/recovery-codes', '/security/passkeys/remove']) {
    const {status, location} = await ada.post(path, {id: '00000000-0000-7000-8000-000000000001'})
    expect([path, status, location]).toEqual([path, 303, '/second-factor?next=%2Fsecurity&notice=not-done'])
  }
  const {location} = await ada.post('/security/password', {present: password, password: 'one more horse battery'})
  expect(location).toBe('/second-factor?next=%2Fsecurity&notice=not-done')
  const options = await ada.get('/auth/passkey/generate-register-options')
  expect([options.status, JSON.parse(options.text).location]).toEqual([
    403,
    '/second-factor?next=%2Fsecurity&notice=not-done',
  ])
  expect((await ada.get('/security')).text).not.toContain('action="/security/recovery-codes"')
  const page = await ada.get('/second-factor?next=%2Fsecurity&notice=not-done')
  expect(page.text).toContain('Nothing was done yet')
  await ada.post('/second-factor', {code: codes.pop()!, next: '/security', notice: 'not-done'})

  const made = await ada.post('/security/recovery-codes')
  const fresh = /<pre[^>]*>([^<]+)<\/pre>/.exec(made.text)![1]!.split('\n')
  const old = codes.pop()!
  codes = fresh
  expect((await ada.post('/second-factor', {code: old})).status).toBe(401)
  expect((await ada.post('/second-factor', {code: codes.pop()!})).status).toBe(303)
})

test('an authenticator is replaced only by a form of the same person, with a code of the new one', async () => {
  const begun = await ada.post('/security/authenticator')
  const sealed = /name="sealed" value="([^"]+)"/.exec(begun.text)![1]!
  expect((await ada.post('/security/authenticator/confirm', {sealed, code: '000000'})).status).toBe(422)
  expect((await ada.post('/security/authenticator/confirm', {sealed: 'ab12', code: '000000'})).status).toBe(410)
  const gil = await join(server, db, merchant, 'gil@acme.test')
  expect((await gil.post('/security/authenticator/confirm', {sealed, code: '000000'})).status).toBe(410)
  const before = secret
  await db.rows('delete from dashboard.used_code')
  ;({secret, codes} = await setUpAuthenticator(ada))
  await db.rows('delete from dashboard.used_code')
  expect((await ada.post('/second-factor', {code: codeAt(before, step())})).status).toBe(401)
  expect((await ada.post('/second-factor', {code: codeAt(secret, step())})).status).toBe(303)
})

test('a changed password needs the present one, ends all other sessions, and gives this one another token', async () => {
  const other = await another()
  const old = new Browser(server)
  for (const [name, value] of ada.cookies) old.cookies.set(name, value)
  const next = 'another horse battery'
  const wrong = await ada.post('/security/password', {present: 'wrong wrong wrong', password: next})
  expect([wrong.status, alertOf(wrong.text)]).toEqual([401, 'The present password is not right.'])
  expect((await ada.post('/security/password', {present: password, password: 'short'})).status).toBe(422)
  expect(await isSignedIn(other)).toBe(true)
  const {location} = await ada.post('/security/password', {present: password, password: next})
  expect(location).toBe('/security?done=password')
  expect((await ada.get(location!)).text).toContain('Your password is changed')
  expect([await isSignedIn(ada), await isSignedIn(other), await isSignedIn(old)]).toEqual([true, false, false])
  expect((await new Browser(server).post('/sign-in', {email: 'ada@acme.test', password})).status).toBe(401)
  expect(await isSignedIn(await another(next))).toBe(true)
  expect((await logged('password.change')).map(({outcome}) => outcome)).toEqual(['wrong_password', 'done'])
})

test('a browser that the person used before another password was set is a stranger; the one that set it is not', async () => {
  await db.rows('delete from dashboard.attempt')
  const mark = '__Host-sluice.browser'
  const before = new Browser(server)
  before.cookies.set(mark, ada.cookies.get(mark)!)
  const [present, next] = ['another horse battery', 'one more horse battery']
  await ada.post('/second-factor', {code: codes.pop()!})
  expect((await ada.post('/security/password', {present, password: next})).location).toBe('/security?done=password')
  const stranger = new Browser(server)
  for (let n = 0; n < 10; n++) await stranger.post('/sign-in', {email: 'ada@acme.test', password: 'wrong wrong'})
  const statusIn = async (browser: Browser) =>
    (await browser.post('/sign-in', {email: 'ada@acme.test', password: next})).status
  const after = new Browser(server)
  after.cookies.set(mark, ada.cookies.get(mark)!)
  expect([await statusIn(stranger), await statusIn(before), await statusIn(after)]).toEqual([429, 429, 303])
  await db.rows('delete from dashboard.attempt')
})

test('a reset removes the password, every second factor and every session; its other links end with it', async () => {
  await addPasskey(await userOf('ada@acme.test'), 'stolen phone')
  const [link, other] = [await invite(db, merchant, 'ADA@acme.test'), await invite(db, merchant, 'ada@acme.test')]
  const browser = new Browser(server)
  expect((await browser.get(link)).text).toContain('ada@acme.test')
  const next = 'third horse battery'
  expect((await browser.post(link, {password: next, email: 'eve@acme.test'})).location).toBe('/security')
  expect(await isSignedIn(ada)).toBe(false)
  expect((await new Browser(server).get(other)).status).toBe(410)
  expect((await browser.get('/security')).text).toContain('set up a second factor')
  expect(await db.rows('select from auth.passkey where name = $1', ['stolen phone'])).toEqual([])
  expect((await browser.post('/second-factor', {code: codes.pop()!})).status).toBe(401)
  await db.rows('delete from dashboard.used_code')
  await setUpAuthenticator(browser)
  expect(await isSignedIn(browser)).toBe(true)
  expect(await logged('reset.accept')).toEqual([{outcome: 'done', target: null}])
})

test('new recovery codes, and the end of a passkey, are asked about on pages of their own, which change nothing', async () => {
  await db.rows('delete from dashboard.used_code')
  const hal = await join(server, db, merchant, 'hal@acme.test')
  await setUpAuthenticator(hal)
  const passkey = await addPasskey(await userOf('hal@acme.test'), 'laptop')
  const state = () =>
    db.rows(
      `select (select json_agg(c order by c) from auth.recovery_code c) as codes, (select json_agg(p.id) from auth.passkey p) as keys`,
    )
  const before = await state()
  expect((await hal.get('/security')).text).toContain(`href="/security/passkeys/remove?id=${passkey}"`)
  for (const [path, action] of [
    ['/security/recovery-codes', 'action="/security/recovery-codes"'],
    [`/security/passkeys/remove?id=${passkey}`, 'action="/security/passkeys/remove"'],
  ] as const) {
    const {status, text} = await hal.get(path)
    expect([path, status, text.includes(action), text.includes('href="/security">Keep')]).toEqual([
      path,
      200,
      true,
      true,
    ])
  }
  const unknown = '/security/passkeys/remove?id=00000000-0000-7000-8000-000000000001'
  expect((await hal.get(unknown)).status).toBe(404)
  expect(await state()).toEqual(before)
})

test('whoever is asked for the second factor can leave, and reads what to do without the phone', async () => {
  await db.rows('delete from dashboard.used_code')
  const ida = await join(server, db, merchant, 'ida@acme.test')
  await setUpAuthenticator(ida)
  const signedIn = await ida.get('/second-factor')
  expect(signedIn.text).toContain('<a href="/">Cancel</a>')
  expect(signedIn.text).toContain('Type one of your recovery codes instead.')
  const elsewhere = new Browser(server)
  await elsewhere.post('/sign-in', {email: 'ida@acme.test', password})
  const {text} = await elsewhere.get('/second-factor')
  expect([text.includes('Cancel'), text.includes('action="/sign-out"')]).toEqual([false, true])
})

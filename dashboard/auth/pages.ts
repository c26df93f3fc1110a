// What the pages of the sign-in process look like. They work without JavaScript, but for passkeys: static/passkeys.js
// finds their buttons and forms by data-passkey; data-next says where to go then.

import {type Html, html, type Part} from '../../base/html.ts'
import {qrSvg} from '../../base/qr.ts'
import {alert, copyButton, decide, field, notice, signOut, when} from '../components.ts'
import type {Factors, PasskeyRow, SessionRow} from './data.ts'
import {passwordLength} from './sign-in.ts'

export const emailLength = 254
const card = (...parts: Part[]) => html`<section class="card">${parts}</section>`
const hidden = (name: string, value: string) => html`<input type="hidden" name="${name}" value="${value}">`

const newPassword = (label: string) =>
  field({
    label,
    name: 'password',
    type: 'password',
    autocomplete: 'new-password',
    minlength: passwordLength.min,
    maxlength: passwordLength.max,
    help: `At least ${passwordLength.min} characters. Several random words are easy to remember.`,
  })

const codeField = (label: string) =>
  field({label, name: 'code', autocomplete: 'one-time-code', maxlength: 40, isFirst: true})

const passkeyScript = html`<script src="/static/passkeys.js" defer></script>`

const usePasskey = (next: string) =>
  html`<p><button type="button" class="quiet" data-passkey="use" data-next="${next}" hidden>Use a passkey</button></p>${passkeyScript}
<noscript><p class="soft">Passkeys need JavaScript.</p></noscript>`

// --- signing in ---

export function signIn({next, error, email}: {next: string; error?: string; email?: string}): Html {
  return card(
    alert(error),
    html`<form method="post" action="/sign-in">${hidden('next', next)}
${field({label: 'E-mail', name: 'email', type: 'email', value: email, autocomplete: 'username webauthn', maxlength: emailLength, isFirst: true})}
${field({label: 'Password', name: 'password', type: 'password', autocomplete: 'current-password', maxlength: passwordLength.max})}
<button>Sign in</button></form>${usePasskey(next)}
<p class="soft">You lost your password or your second factor? Ask your operator for a new link.</p>`,
  )
}

interface SecondFactor {
  next: string
  factors: Factors
  isNotDone: boolean
  /** It was shown in this session before: there is somewhere to go back to. */
  isSignedIn: boolean
  error?: string
}

export function secondFactor({next, factors, isNotDone, isSignedIn, error}: SecondFactor): Html {
  return card(
    isNotDone && notice('Nothing was done yet. Confirm that it is you; then send the form again.'),
    alert(error),
    factors.has_authenticator
      ? html`<form method="post" action="/second-factor">${hidden('next', next)}${isNotDone && hidden('notice', 'not-done')}
${codeField('Code of your authenticator, or a recovery code')}<button>Confirm</button></form>`
      : html`<p>Confirm with your passkey that it is you.</p>`,
    factors.passkeys > 0 && usePasskey(next),
    html`<p class="soft">You do not have your ${factors.has_authenticator ? 'phone? Type one of your recovery codes instead. You have none, either' : 'passkey'}? Ask your operator for a new link.</p>`,
    isSignedIn ? html`<p><a href="/">Cancel</a></p>` : signOut,
  )
}

// --- invitations ---

interface InvitationPage {
  merchant: string
  /** Of the person who gets a new password. */
  reset: string | null
  error?: string
  name?: string
  email?: string
}

export function invitation({merchant, reset, error, name, email}: InvitationPage): Html {
  if (reset)
    return card(
      alert(error),
      html`<p>Choose a new password for <strong>${reset}</strong> of ${merchant}. Your authenticator, your recovery codes and your passkeys are removed,
and every browser is signed out. You set up a new second factor next.</p>
<form method="post"><input type="hidden" name="email" autocomplete="username" value="${reset}">${newPassword('New password')}<button>Set the password</button></form>`,
    )
  return card(
    alert(error),
    html`<p>You are invited to manage <strong>${merchant}</strong>.</p><form method="post">
${field({label: 'Your name', name: 'name', value: name, autocomplete: 'name', maxlength: 100, isFirst: true})}
${field({label: 'E-mail', name: 'email', type: 'email', value: email, autocomplete: 'username', maxlength: emailLength, help: 'You sign in with it. Nothing is sent to it.'})}
${newPassword('Password')}<button>Accept the invitation</button></form>`,
  )
}

// --- security ---

interface Security {
  factors: Factors
  /** A second factor was shown within ten minutes, or there is none yet. */
  mayChange: boolean
  passkeys: PasskeyRow[]
  sessions: SessionRow[]
  /** The id of this session. */
  present: string
  email: string
  error?: string
  done?: string
}

export function security(shown: Security): Html {
  const {factors, error, done} = shown
  const isNew = !factors.has_authenticator && factors.passkeys === 0
  return html`${alert(error)}${notice(done)}${
    isNew && notice('One more step: set up a second factor. It is needed before you can see anything else.')
  }${authenticator(shown)}${passkeyList(shown)}${isNew ? signOut : [sessionList(shown), password(shown)]}`
}

const confirmFirst = html`<p><a href="/second-factor?next=%2Fsecurity">Confirm that it is you</a> to change this.</p>`

function authenticator({factors: {has_authenticator: isThere, recovery_codes: codes}, mayChange}: Security): Html {
  return card(
    html`<h2>Authenticator</h2><p>${
      isThere
        ? `An app on your phone makes the codes. ${codes} of 10 recovery codes are left.`
        : 'An app on your phone (any that knows TOTP) makes a code each time that you sign in.'
    }</p>`,
    mayChange
      ? html`<form method="post" action="/security/authenticator"><button>${isThere ? 'Replace the authenticator' : 'Set up an authenticator'}</button></form>
${isThere && html`<p class="soft">The present one and its recovery codes stop working once you have typed a code of the new one.</p><p><a href="/security/recovery-codes">Make new recovery codes</a></p>`}`
      : confirmFirst,
  )
}

function passkeyList({passkeys, mayChange}: Security): Html {
  const rows = passkeys.map(
    ({
      id,
      name,
      createdAt,
    }) => html`<li><span>${name || 'Passkey'} <span class="soft">added ${when(createdAt.toISOString())}</span></span>
<a href="/security/passkeys/remove?id=${id}" aria-label="Remove the passkey ${name || ''}">Remove</a></li>`,
  )
  return card(
    html`<h2>Passkeys</h2><p>A passkey of your device signs you in alone, without a password or a code.</p>${rows.length > 0 && html`<ul class="plain">${rows}</ul>`}`,
    mayChange
      ? html`<form data-passkey="add" data-next="/security" hidden>${field({label: 'Name of the new passkey', name: 'name', maxlength: 100, help: 'Such as the name of your device.'})}
<button>Add a passkey</button></form>${passkeyScript}<noscript><p class="soft">Adding a passkey needs JavaScript.</p></noscript>`
      : confirmFirst,
  )
}

function sessionList({sessions, present}: Security): Html {
  const rows = sessions.map(
    ({
      id,
      userAgent,
      ipAddress,
      createdAt,
    }) => html`<li><span>${browserOf(userAgent)} <span class="soft">from ${ipAddress}, since ${when(createdAt.toISOString())}</span></span>
${
  id === present
    ? html`<span class="soft">this one</span>`
    : html`<form method="post" action="/security/sessions/end">${hidden('id', id)}<button class="quiet" aria-label="End the session from ${ipAddress}, since ${createdAt.toISOString()}">End</button></form>`
}</li>`,
  )
  return card(
    html`<h2>Browsers that are signed in</h2><ul class="plain">${rows}</ul>`,
    sessions.length > 1 &&
      html`<form method="post" action="/security/sessions/end-others"><button class="quiet">End all others</button></form>`,
  )
}

/** For people, from what the browser says it is. */
function browserOf(userAgent: string | null): string {
  const text = userAgent ?? ''
  const browser = [/Edg\//, /OPR\//, /Firefox\//, /Chrome\//, /Safari\//].findIndex(pattern => pattern.test(text))
  const system = /Android|iPhone|iPad|Windows|Mac OS X|Linux/.exec(text)?.[0]
  const name = ['Edge', 'Opera', 'Firefox', 'Chrome', 'Safari'][browser] ?? (text.slice(0, 60) || 'An unknown browser')
  return system ? `${name} on ${system.replace(' OS X', '')}` : name
}

/** With the e-mail address, so that a password manager knows whose password it is. */
function password({email, mayChange}: Security): Html {
  const title = html`<h2>Password</h2>`
  if (!mayChange) return card(title, confirmFirst)
  return card(html`${title}<p>All other browsers will be signed out.</p><form method="post" action="/security/password">
<input type="email" value="${email}" autocomplete="username" readonly hidden>
${field({label: 'Present password', name: 'present', type: 'password', autocomplete: 'current-password', maxlength: passwordLength.max})}
${newPassword('New password')}<button>Change the password</button></form>`)
}

// --- what is asked before it is done ---

const question = (text: Part, action: string, fields: Part, button: string, other: string) =>
  card(
    html`<p>${text}</p><form method="post" action="${action}">${fields}${decide(button, '/security', {isDestructive: true, other})}</form>`,
  )

export const askRecoveryCodes = question(
  'Ten new codes are made and shown once. The recovery codes that you have now stop working at once.',
  '/security/recovery-codes',
  null,
  'Make new codes',
  'Keep the present ones',
)

export const askRemovePasskey = ({id, name}: PasskeyRow): Html =>
  question(
    html`The passkey <strong>${name || 'without a name'}</strong> can then no longer sign you in. Your device may still offer it: delete it there, too.`,
    '/security/passkeys/remove',
    hidden('id', id),
    'Remove the passkey',
    'Keep it',
  )

// --- setting up an authenticator ---

interface SetUp {
  secret: string
  /** What the authenticator reads. */
  uri: string
  /** The secret, sealed for the form that confirms it. */
  sealed: string
  error?: string
}

export function setUp({secret, uri, sealed, error}: SetUp): Html {
  const image = `data:image/svg+xml;base64,${Buffer.from(qrSvg(uri)).toString('base64')}`
  return card(
    alert(error),
    html`<ol><li>Scan this with your authenticator, an app such as those for two-factor codes.<p><img class="qr" alt="QR code with the secret below" src="${image}" width="220" height="220"></p>
<p>Or type the secret: <code>${secret.match(/.{4}/g)!.join(' ')}</code></p></li>
<li>Type the code that it shows.<form method="post" action="/security/authenticator/confirm">${hidden('sealed', sealed)}${codeField('Code')}<button>Confirm</button></form></li></ol>
<p><a href="/security">Cancel</a></p>`,
  )
}

export function recoveryCodes(codes: string[]): Html {
  return card(
    html`<p>Keep these codes where you find them without your phone, such as in a password manager or on paper. Each signs you in once in place of a code of
your authenticator. <strong>They are not shown again.</strong></p>
<div class="command"><pre tabindex="0" aria-label="Recovery codes">${codes.join('\n')}</pre>${copyButton('all of them')}</div><p><a class="button" href="/">I have kept them</a></p>`,
  )
}

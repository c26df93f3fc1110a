// How the merchant looks on the pages of its payment requests: what there is, as customers see it, and its form.
import {textOn} from '../../../base/colour.ts'
import {type Html, html} from '../../../base/html.ts'
import {alert, button, card, choices, command, decide, facts, field, formId, notice} from '../../components.ts'
import type {Brand} from '../data.ts'
import {type Fields, many, one, type View} from '../view.ts'

interface Shown {
  brand: Brand
  /** The name of the account. */
  merchant: string
  /** Where customers reach the pages. */
  apiUrl: string
  isSaved: boolean
}

const parent = ['/settings', 'Settings'] as const

export const paymentPagePage = ({brand, merchant, apiUrl, isSaved}: Shown): View => ({
  title: 'Payment page',
  section: '/settings',
  parent,
  actions: button('/settings/payment-page/edit', 'Change it'),
  body: html`${isSaved && notice('The pages of all payment requests look like this now.')}<div class="columns">${card({
    title: 'What your customers see',
    body: previewOf({...brand, name: brand.name ?? merchant}, logoUrlOf(brand)),
  })}${card({
    title: 'Details',
    body: facts([
      ['Name', brand.name ?? html`${merchant} <span class="soft small">(of the account)</span>`],
      ['Colour of buttons', brand.accent ?? 'as it is without'],
      ['Logo', brand.has_logo ? 'yes' : 'none'],
      ['Link to your site', brand.site_url ?? 'none'],
      ['Link to your help', brand.help_url ?? 'none'],
    ]),
  })}</div>${card({
    title: 'On your own site',
    action: button('/settings/payment-page/sites', 'Change the sites', 'quiet'),
    body: html`<p>${
      brand.sites.length > 0
        ? html`These sites may show the page in a frame: ${brand.sites.map((site, index) => [index > 0 && ', ', html`<strong>${site}</strong>`])}.`
        : 'No site may show the page in a frame. Name yours, and put this into its pages, with the payment_url of a request:'
    }</p>${command(snippetFor(apiUrl), 'snippet')}<p class="soft small">A button or a link opens the page over yours, any other element shows it inside. The element gets an event <code>sluice-payment</code> with the state at each change: show it, but deliver only when your server knows from Sluice that the request is paid.</p>`,
  })}`,
})

const snippetFor = (apiUrl: string) => `<button data-sluice-payment="${apiUrl}/pay/…">Pay with crypto</button>
<script src="${apiUrl}/pay.js" defer></script>`

/** A drawing does not wrap. */
const shortened = (name: string) => (name.length > 14 ? `${name.slice(0, 13)}…` : name)

/** Where the logo is: the present one, unless another (a PNG) was chosen, or none. */
export function logoUrlOf({has_logo}: Brand, chosen?: Buffer | null): string | undefined {
  if (chosen) return `data:image/png;base64,${chosen.toString('base64')}`
  return has_logo && chosen !== null ? '/settings/payment-page/logo.png' : undefined
}

/** A drawing: a style of its own would be refused here. */
export const previewOf = ({name, accent, site_url, help_url}: Brand & {name: string}, logoUrl?: string): Html =>
  html`<svg class="preview" viewBox="0 0 300 190" role="img" aria-label="The payment page, in small: ${name}"><rect width="300" height="190" fill="#ffffff"/>${
    logoUrl &&
    html`<image href="${logoUrl}" x="16" y="12" width="110" height="36" preserveAspectRatio="xMinYMid meet"/>`
  }<g fill="#1b1f24" font-size="11"><text x="16" y="66"><tspan font-weight="700">${shortened(name)}</tspan><tspan dx="8" fill="#59636e">Reference acme-1042</tspan></text><text x="16" y="94" font-size="22" font-weight="700">25 USDC</text></g><rect x="16" y="108" width="268" height="34" rx="8" fill="${accent ?? '#0b5cad'}"/><text x="150" y="129.5" text-anchor="middle" font-size="12" font-weight="600" fill="${textOn(accent ?? '#0b5cad')}">Open in wallet</text><text x="16" y="168" font-size="10" fill="#59636e">${[
    site_url && shortened(name),
    help_url && 'Help',
  ]
    .filter(Boolean)
    .join(' · ')}</text></svg>`

export const editPaymentPage = (brand: Brand, typed: Fields, error?: string, preview?: Html): View => {
  // What was typed counts as a whole: a field that was emptied stays empty.
  const isTyped = typed.edited !== undefined
  const value = (name: 'name' | 'accent' | 'site_url' | 'help_url') => (isTyped ? one(typed[name]) : brand[name]) ?? ''
  return {
    title: 'Change the payment page',
    section: '/settings',
    parent: ['/settings/payment-page', 'Payment page'],
    body: html`<section class="card narrow">${alert(error)}${
      preview && html`${notice('Nothing is saved yet. This is what your customers would see.')}${preview}`
    }<form method="post" action="/settings/payment-page" enctype="multipart/form-data">${formId()}<input type="hidden" name="edited" value="1">${field(
      {
        label: 'Name',
        name: 'name',
        value: value('name'),
        maxlength: 60,
        isOptional: true,
        isFirst: true,
        autocomplete: 'off',
        help: 'As your customers know you. Empty: the name of the account.',
      },
    )}${field({
      label: 'Colour of buttons',
      name: 'accent',
      value: value('accent'),
      maxlength: 7,
      isOptional: true,
      autocomplete: 'off',
      help: 'Such as #0b5cad. It must be dark enough to be seen on white; the text on it is black or white, whichever reads better.',
    })}<label class="field"><span>Logo</span><input type="file" name="logo" accept="image/png,image/jpeg"><small>A PNG or a JPEG of at most 512 KiB and 2000 pixels on each side. It is made 256 pixels large at most. Left empty, the present one stays.${isTyped && ' Choose the file again: nothing was stored.'}</small></label>${
      brand.has_logo &&
      choices('No logo', 'no_logo', [{value: '1', label: 'Show no logo any more'}], many(typed.no_logo))
    }${field({
      label: 'Link to your site',
      name: 'site_url',
      type: 'url',
      value: value('site_url'),
      maxlength: 500,
      isOptional: true,
      help: 'Begins with https://',
    })}${field({
      label: 'Link to your help',
      name: 'help_url',
      type: 'url',
      value: value('help_url'),
      maxlength: 500,
      isOptional: true,
      help: 'Where customers ask when something went wrong.',
    })}<div class="decide"><button>Save the payment page</button><button class="quiet" name="preview" value="1">Preview</button><a class="button quiet" href="/settings/payment-page">Cancel</a></div></form></section>`,
  }
}

export const editSites = (sites: readonly string[], typed: Fields, error?: string): View => ({
  title: 'Sites that show the payment page',
  section: '/settings',
  parent: ['/settings/payment-page', 'Payment page'],
  body: html`<section class="card narrow">${alert(error)}<form method="post" action="/settings/payment-page/sites">${formId()}<label class="field"><span>Sites, one in each line</span><textarea name="sites" rows="6" maxlength="5000" autocomplete="off" autofocus>${one(typed.sites) ?? sites.join('\n')}</textarea><small>Such as https://shop.example. Browsers show the page in frames of these sites, and of no others. Empty: of none.</small></label>${decide('Save the sites', '/settings/payment-page')}</form></section>`,
})

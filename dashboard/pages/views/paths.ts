// Where the pages of things are.
import type {Found} from '../data.ts'

export const paymentRequestPath = (reference: string): string => `/payment-requests/${encodeURIComponent(reference)}`

type Thing = Pick<Found, 'kind' | 'id'> & Partial<Found>

const paths: Record<Found['kind'], (thing: Thing) => string> = {
  user: ({id}) => `/users/${id}`,
  deposit: ({id}) => `/deposits/${id}`,
  not_credited: ({id}) => `/users/${id}`,
  payout: ({id}) => `/payouts/${id}`,
  payout_address: ({id}) => `/payout-addresses#${id}`,
  payment_request: ({id}) => paymentRequestPath(id),
  endpoint: ({id}) => `/webhooks/${id}`,
  delivery: ({id, endpoint_id}) => `/webhooks/${endpoint_id}/deliveries/${id}`,
  api_key: ({id}) => `/api-keys#${id}`,
}

export const pathOf = (thing: Thing): string => paths[thing.kind](thing)

// What an API key may do: read is every GET; each of the others adds the changes of one part of the API. The database
// knows the same (app.api_key).
export const scopes = ['read', 'users', 'payouts', 'payments', 'webhooks'] as const
export type Scope = (typeof scopes)[number]

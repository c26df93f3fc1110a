// The types of the API's document (openapi.generated.ts is made from it), by the names that merchants use.
import type {components, operations} from './openapi.generated.ts'

type Schemas = components['schemas']
export type User = Schemas['User']
export type Deposit = Schemas['Deposit']
export type SingleDeposit = Schemas['SingleDeposit']
export type Balance = Schemas['Balance']
export type Statement = Schemas['Statement']
export type StatementLine = Schemas['StatementLine']
export type Payout = Schemas['Payout']
export type PayoutItem = Schemas['PayoutItem']
export type PayoutPart = Schemas['PayoutPart']
export type NewPayout = Schemas['NewPayout']
export type PayoutAddress = Schemas['PayoutAddressState']
export type PaymentRequest = Schemas['PaymentRequest']
export type PaymentRequestItem = Schemas['PaymentRequestItem']
export type PaymentRequestState = Schemas['PaymentRequestState']
export type Payment = Schemas['Payment']
export type Asset = Schemas['Asset']
export type WebhookEndpoint = Schemas['WebhookEndpoint']
export type WebhookEndpointWithSecret = Schemas['WebhookEndpointWithSecret']
export type Delivery = Schemas['Delivery']

/** What webhooks and the list of events carry; `type` says which it is. Keep a branch for other types. */
export type Event = Schemas['Event']
export type EventType = Event['type']
/** The event of one type. */
export type EventOf<Type extends EventType> = Extract<Event, {type: Type}>

export type Operation = keyof operations
/** What an operation answers where it succeeds. */
export type Reply<Name extends Operation> = JsonOf<operations[Name]['responses']>
type JsonOf<Responses> = {
  [Status in keyof Responses & (200 | 201 | 202)]: Responses[Status] extends {content: {'application/json': infer Json}}
    ? Json
    : never
}[keyof Responses & (200 | 201 | 202)]

/** What an operation is sent. */
export type Body<Name extends Operation> = operations[Name] extends {
  requestBody?: {content: {'application/json': infer Json}}
}
  ? NonNullable<Json>
  : never

/** What a list is asked for. */
export type Filters<Name extends Operation> = Loose<Omit<QueryOf<Name>, 'cursor'>>
/** Lists may be constants. */
type Loose<Query> = {[Key in keyof Query]: OrReadonly<Query[Key]>}
type OrReadonly<Value> = Value extends readonly (infer Item)[] ? readonly Item[] : Value
type QueryOf<Name extends Operation> = operations[Name] extends {parameters: {query?: infer Query}}
  ? NonNullable<Query>
  : Record<never, never>

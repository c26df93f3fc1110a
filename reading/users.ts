// A user, as merchants see it: the JSON that app.read_users and app.read_user give (db/functions/reading/users.sql).
// The API's document and the dashboard read it by these schemas.
import {z} from 'zod'
import {Address, externalRef, id, metadata, timestamp} from './fields.ts'

export const userShape = {id: id('usr'), external_ref: externalRef, addresses: z.array(Address), metadata}
export const User = z.object({...userShape, created_at: timestamp}).meta({id: 'User'})
export type User = z.infer<typeof User>

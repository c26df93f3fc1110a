// Which characters a new reference, name or label may not have.
import {afterAll, beforeAll, expect, test} from 'vitest'
import {type TestDatabase, testDatabase} from '../test/support/database.ts'

let db: TestDatabase

beforeAll(async () => {
  db = await testDatabase()
})
afterAll(() => db.drop())

/**
 * What Unicode calls a control, ignorable or a mark of direction; interlinear annotations, and the blank of Braille.
 */
const unseen = /[\p{Cc}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\p{Bidi_Control}\ufff9-\ufffb\u2800]/u
const joiner = /[\p{Join_Control}\p{Variation_Selector}]/u
const mongolian = /[\u180b-\u180f]/u // variation selectors of one script: no name needs them to be told apart

test('every code point that nobody sees is refused within a reference, and no other; a name may have joiners', async () => {
  // Planes 2, 3, 15 and 16 are ideographs and private use, of which one in 64 is enough.
  const isOne = (code: number) => ![2, 3, 15, 16].includes(code >> 16) || code % 64 === 0
  const all = Array.from({length: 0x11_0000}, (_, code) => code).filter(
    code => code > 0 && (code < 0xd800 || code > 0xdfff) && isOne(code),
  )
  const rows = await db.rows<{code: number; of_reference: boolean; of_name: boolean; is_seen: boolean}>(
    `select code, app.unclear('a' || c || 'b', false) is not null as of_reference, app.unclear('a' || c || 'b', true) is not null as of_name,
       app.visible_text('a' || c || 'b') <> 'ab' as is_seen
     from unnest($1::int[]) code cross join lateral (select chr(code) as c) c where unicode_assigned(chr(code)) or chr(code) <> normalize(chr(code), NFC)`,
    [all],
  )
  const wrong = rows.filter(({code, of_reference, of_name, is_seen}) => {
    const character = String.fromCodePoint(code)
    const isUnseen = unseen.test(character)
    const isAllowedInName = joiner.test(character) && !mongolian.test(character)
    return of_reference !== isUnseen || of_name !== (isUnseen && !isAllowedInName) || is_seen === isUnseen
  })
  expect(wrong).toEqual([])
  expect(rows.length).toBeGreaterThan(75_000)
})

test('a space is refused at the ends only', async () => {
  const spaces = Array.from({length: 0x1_0000}, (_, code) => String.fromCodePoint(code)).filter(c => /\p{Zs}/u.test(c))
  expect(spaces.length).toBe(17)
  for (const space of spaces) {
    const [row] = await db.rows<Record<string, string | null>>(
      `select app.unclear($1 || 'a', true) as before, app.unclear('a' || $1, true) as after, app.unclear('a' || $1 || 'b', false) as within,
         app.visible_text($1 || 'a' || $1) as seen`,
      [space],
    )
    const words = expect.stringContaining('must not begin or end with a space')
    expect(row).toEqual({before: words, after: words, within: null, seen: 'a'})
  }
})

test('names and labels are refused by the same rule', async () => {
  const merchant = "select app.create_merchant($1, 'words', '{}', 0) as id"
  await expect(db.rows(merchant, ['Shop\u202egnp'])).rejects.toThrow(
    'the name must not hold a mark of the direction of',
  )
  const [{id} = {id: ''}] = await db.rows<{id: string}>(merchant, ['Family 👨‍👩‍👧 ❤️'])
  await expect(db.rows('select app.update_merchant($1, $2, 0)', [id, 'Shop '])).rejects.toThrow('end with a space')
  const key = `select app.create_api_key($1, sha256('x'), $2)`
  await expect(db.rows(key, [id, 'till\u200b'])).rejects.toThrow(
    'the label must not hold an invisible character (U+200B)',
  )
})

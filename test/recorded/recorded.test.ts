// Every recording is read by a test: a file that no test names is of no use, and shows nothing.
import {readdirSync, readFileSync} from 'node:fs'
import path from 'node:path'
import {expect, test} from 'vitest'
import {recordings} from '../support/recorded.ts'

const root = path.resolve(import.meta.dirname, '../..')
const filesIn = (folder: string, ending: string) =>
  readdirSync(folder, {recursive: true, encoding: 'utf8'}).filter(file => file.endsWith(ending))

/** The code of the tests that read recordings. */
const readers = ['chains', 'indexers', 'jobs'].flatMap(room =>
  filesIn(path.join(root, room), '.test.ts')
    .map(file => readFileSync(path.join(root, room, file), 'utf8'))
    .filter(code => code.includes('/support/recorded.ts')),
)

test('every recording is named by a test that reads recordings', () => {
  const names = filesIn(recordings.pathname, '.json').map(file => file.slice(0, -'.json'.length))
  expect(names.length).toBeGreaterThan(100)
  const isRead = (name: string) => readers.some(code => code.includes(`'${name}'`))
  expect(names.filter(name => !isRead(name))).toEqual([])
})

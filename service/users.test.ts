// What root gives to the users of processes.
import {lchownSync, mkdirSync, mkdtempSync, rmSync, statSync, symlinkSync, writeFileSync} from 'node:fs'
import {tmpdir} from 'node:os'
import path from 'node:path'
import {expect, onTestFinished, test} from 'vitest'
import {giveDirectories} from './users.ts'

const user = {uid: 59021, gid: 59021}

test.runIf(process.getuid?.() === 0)(
  'a process gets its directories and what root wrote there, and nothing that a link there leads to',
  () => {
    const home = mkdtempSync(path.join(tmpdir(), 'sluice-users-'))
    onTestFinished(() => rmSync(home, {recursive: true}))
    const file = (...names: string[]) => {
      const name = path.join(home, ...names)
      mkdirSync(path.dirname(name), {recursive: true})
      writeFileSync(name, '')
      return name
    }
    const theirs = file('another', 'secret')
    const own = file('custody', 'older', 'seed.json')
    const compiled = file('compiled', 'sluice_custody', 'module')
    for (const directory of [path.join(home, 'custody'), path.dirname(compiled)]) {
      const link = path.join(directory, 'link')
      symlinkSync(path.dirname(theirs), link)
      lchownSync(link, user.uid, user.gid)
    }
    giveDirectories(home, 'sluice_custody', user)
    expect(statSync(own)).toMatchObject(user)
    for (const other of [theirs, path.dirname(theirs), compiled, path.join(home, 'compiled')])
      expect(statSync(other)).toMatchObject({uid: 0, gid: 0})
    expect(statSync(path.dirname(compiled))).toMatchObject({...user, mode: 0o40700})
  },
)

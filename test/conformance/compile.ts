// Type-checks variants of a tree like tsc, and prints the errors of each. Stdin has the variants. It reads their common
// files only once, which is faster than several runs of tsc: node test/conformance/compile.ts FOLDER <variants.json
import {readFileSync} from 'node:fs'
import path from 'node:path'
import ts from 'typescript'

export interface Variant {
  /** Texts that replace the contents of these files. */
  texts?: Record<string, string>
  /** Files with one of these in their names are left out. */
  without?: string[]
}

export interface Wrong {
  file: string
  message: string
}

if (import.meta.main) {
  const variants: Variant[] = JSON.parse(readFileSync(0, 'utf8'))
  console.log(JSON.stringify(compile(path.resolve(process.argv[2]!), variants)))
}

function compile(root: string, variants: Variant[]): Wrong[][] {
  const fail = ({messageText}: ts.Diagnostic) => {
    throw new Error(ts.flattenDiagnosticMessageText(messageText, '\n'))
  }
  const system = {...ts.sys, onUnRecoverableConfigFileDiagnostic: fail}
  const {options, fileNames} = ts.getParsedCommandLineOfConfigFile(path.join(root, 'tsconfig.json'), {}, system)!
  const host = ts.createCompilerHost(options)
  const files = new Map<string, ts.SourceFile | undefined>()
  const read = host.getSourceFile
  let last: ts.Program | undefined
  return variants.map(({texts = {}, without = []}) => {
    const given = new Map(Object.entries(texts).map(([file, text]) => [path.join(root, file), text]))
    host.getSourceFile = (file, version, ...how) => {
      const text = given.get(file)
      if (text !== undefined) return ts.createSourceFile(file, text, version)
      if (!files.has(file)) files.set(file, read(file, version, ...how))
      return files.get(file)
    }
    const roots = fileNames.filter(file => !without.some(part => file.includes(part)))
    last = ts.createProgram(roots, options, host, last)
    return ts.getPreEmitDiagnostics(last).map(({file, messageText}) => ({
      file: path.relative(root, file?.fileName ?? root),
      message: ts.flattenDiagnosticMessageText(messageText, '\n'),
    }))
  })
}

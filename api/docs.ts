import type {App} from './app.ts'
export function docs(app: App): void {
  app.get('/openapi.json', {schema: {hide: true}}, async () => JSON.stringify(app.swagger()))
}

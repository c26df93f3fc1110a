"""A shop on the standard library: an address for each customer, deposits that a webhook credits, and payouts."""
# PORT=3000 SLUICE_URL=… SLUICE_API_KEY=… SLUICE_WEBHOOK_SECRET=… python3 shop.py
import base64
import hmac
import json
import os
import sqlite3
import time
from decimal import Context, Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib import error, parse, request

URL, API_KEY = os.environ['SLUICE_URL'], os.environ['SLUICE_API_KEY']
WEBHOOK_KEY = base64.b64decode(os.environ['SLUICE_WEBHOOK_SECRET'].split('whsec_')[1], validate=True)
assert len(WEBHOOK_KEY) >= 24, 'SLUICE_WEBHOOK_SECRET is not that of an endpoint'
request.HTTPRedirectHandler.redirect_request = lambda *_: None  # one would take the key to another server
EXACT = Context(prec=99)  # Python's usual 28 digits can be too few for 18 decimals

# Credit and id are saved in one transaction, as one row. The id is the deposit's: an event can come under another one.
db = sqlite3.connect('shop.db', isolation_level=None, check_same_thread=False)  # each statement is a transaction
db.execute('create table if not exists credit (deposit_id text primary key, reference text, asset text, amount text)')


def is_from_sluice(headers, body):
    sent = headers.get('webhook-timestamp', '')
    is_new = sent.isdecimal() and len(sent) <= 12 and abs(time.time() - int(sent)) <= 300  # no old one, sent again
    signed = f'{headers.get("webhook-id")}.{sent}.'.encode() + body  # the bytes as they came: verify before you parse
    expected = b'v1,' + base64.b64encode(hmac.digest(WEBHOOK_KEY, signed, 'sha256'))
    given = headers.get('webhook-signature', '').encode().split()  # two, for a day after the secret was rotated
    return is_new and any(hmac.compare_digest(expected, one) for one in given)


def ask_sluice(path, body, **headers):
    headers = {'Authorization': f'Bearer {API_KEY}', 'Content-Type': 'application/json', **headers}
    with request.urlopen(request.Request(URL + path, json.dumps(body).encode(), headers), timeout=30) as answer:
        return json.load(answer)


def respond(route, names, headers, body):
    if route == 'POST webhooks':
        if not is_from_sluice(headers, body):
            return 400, {'error': 'wrong_signature'}
        event = json.loads(body)
        if event['type'] == 'deposit.confirmed' and not event.get('test'):
            row = event['deposit_id'], event['user']['external_ref'], '{chain} {token}'.format(**event), event['amount']
            db.execute('insert into credit values (?, ?, ?, ?) on conflict (deposit_id) do nothing', row)
        return 204, None  # only now that it is saved: after an error Sluice sends it again
    # The other routes are open to everybody: put your own login before them.
    if route == 'POST users':
        user = ask_sluice('/v1/users', {'external_ref': names[0]})
        return 200, {each['chain']: each['address'] for each in user['addresses']}
    if route == 'GET balance':
        total = {}
        for asset, amount in db.execute('select asset, amount from credit where reference = ?', names):
            total[asset] = EXACT.add(total.get(asset, 0), Decimal(amount))  # never a float
        return 200, {asset: f'{amount.normalize(EXACT):f}' for asset, amount in total.items()}
    if route == 'POST payouts':  # the whole balance, once a day: by its key, a second request is the same payout
        key = '-'.join([time.strftime('%Y-%m-%d', time.gmtime()), *names[:2]])
        return 202, ask_sluice('/v1/payouts', dict(zip(('chain', 'token'), names)), **{'Idempotency-Key': key})
    return 404, {'error': 'not_found'}


class Shop(BaseHTTPRequestHandler):
    def do_POST(self):
        _, route, *names = map(parse.unquote, self.path.split('/'))
        body = self.rfile.read(int(self.headers.get('Content-Length', 0)))
        try:
            status, answer = respond(f'{self.command} {route}', names, self.headers, body)
        except error.HTTPError as refusal:
            status, answer = refusal.code, json.load(refusal)  # what Sluice said, with its code
        self.send_response(status)
        self.send_header('Content-Type', 'application/json')
        self.end_headers()
        self.wfile.write(b'' if status == 204 else json.dumps(answer).encode())
    do_GET = do_POST


ThreadingHTTPServer(('127.0.0.1', int(os.environ['PORT'])), Shop).serve_forever()  # behind your own web server

<?php declare(strict_types=1);
// A shop in plain PHP 8.1: an address for each customer, deposits that a webhook credits, and payouts.
//   SLUICE_URL=… SLUICE_API_KEY=… SLUICE_WEBHOOK_SECRET=… php -S 127.0.0.1:3000 shop.php
http_response_code(500); // until there is an answer: PHP can say 200 after an error, and no event would come again

const CREDITS = __DIR__ . '/credits'; // your web server must not show it

function isFromSluice(string $body): bool
{
    $header = fn (string $name): string => $_SERVER["HTTP_WEBHOOK_$name"] ?? '';
    $key = (string) base64_decode(substr((string) getenv('SLUICE_WEBHOOK_SECRET'), strlen('whsec_')), true);
    strlen($key) >= 24 || throw new RuntimeException('SLUICE_WEBHOOK_SECRET is not that of an endpoint');
    $mac = base64_encode(hash_hmac('sha256', "{$header('ID')}.{$header('TIMESTAMP')}.$body", $key, true));
    return abs(time() - (int) $header('TIMESTAMP')) <= 300 // a stranger may send an old message again
        && array_filter(explode(' ', $header('SIGNATURE')), fn ($given) => hash_equals("v1,$mac", $given)); // or two
}

// Credit and id are saved in one transaction: a file is written whole, and then gets its name, which it can get once.
// The id is the deposit's: an event can come again under another one. In a database, make it a row with a unique key.
function saveOnce(string $depositId, array $credit): void
{
    is_dir(CREDITS) || mkdir(CREDITS, 0700);
    $name = CREDITS . "/$depositId";
    $file = fopen($new = tempnam(CREDITS, 'new'), 'w');
    $isSaved = fwrite($file, json_encode($credit)) && fsync($file) // first the credit, then its name
        && (@link($new, $name) || is_file($name)) && fsync($file);
    unlink($new);
    $isSaved || throw new RuntimeException("$name cannot be written");
}

/** To the last of 78 digits and 36 decimals, which no amount exceeds: floats lose digits. With bcmath: bcadd(). */
function add(string $a, string $b): string
{
    $wide = fn ($whole, $part): string => str_pad($whole, 78, '0', STR_PAD_LEFT) . str_pad($part, 36, '0');
    [$a, $b, $sum] = [$wide(...explode('.', "$a.")), $wide(...explode('.', "$b.")), ''];
    for ($carry = 0, $n = 113; $n >= 0; $n--, $carry = intdiv($carry, 10)) {
        $carry += $a[$n] + $b[$n];
        $sum = $carry % 10 . $sum;
    }
    return preg_replace('/^0+(?=\d)|\.?0+$/', '', substr_replace($sum, '.', 78, 0));
}

function ask(string $path, array $body, string ...$headers): array
{
    $headers = ['Authorization: Bearer ' . getenv('SLUICE_API_KEY'), 'Content-Type: application/json', ...$headers];
    $http = ['method' => 'POST', 'header' => $headers, 'content' => json_encode($body), 'ignore_errors' => true,
        'follow_location' => 0]; // a redirect would take the key to another server
    $answer = fopen(getenv('SLUICE_URL') . $path, 'r', false, stream_context_create(['http' => $http]));
    $status = (int) explode(' ', stream_get_meta_data($answer)['wrapper_data'][0])[1];
    return [$status, json_decode(stream_get_contents($answer))];
}

[[$method, $route, $first, $second], $status, $answer] =
    [explode('/', "$_SERVER[REQUEST_METHOD]$_SERVER[REQUEST_URI]///"), 404, []];
if ("$method $route" === 'POST webhooks') {
    $body = file_get_contents('php://input'); // the bytes as they came: verify before you parse
    $status = isFromSluice($body) ? 204 : 400;
    $event = json_decode($body);
    if ($status === 204 && $event->type === 'deposit.confirmed' && !isset($event->test)) {
        preg_match('/^dep_[0-9a-f]{32}$/D', $event->deposit_id) || throw new RuntimeException('that is no deposit');
        saveOnce($event->deposit_id, [$event->user->external_ref, "$event->chain $event->token", $event->amount]);
    } // only now is 204 answered: after an error Sluice sends it again
} elseif ("$method $route" === 'POST users') { // this and what follows is open to everybody: ask for a login before it
    [$status, $answer] = ask('/v1/users', ['external_ref' => rawurldecode($first)]);
    $answer = isset($answer->addresses) ? array_column($answer->addresses, 'address', 'chain') : $answer;
} elseif ("$method $route" === 'GET balance') {
    $status = 200;
    foreach (glob(CREDITS . '/dep_*') as $file) {
        [$reference, $asset, $amount] = json_decode(file_get_contents($file));
        if ($reference === rawurldecode($first)) {
            $answer[$asset] = add($answer[$asset] ?? '0', $amount);
        }
    }
} elseif ("$method $route" === 'POST payouts') { // the whole balance, once a day: its key makes a second one the same
    $key = gmdate('Y-m-d') . "-$first-$second";
    [$status, $answer] = ask('/v1/payouts', ['chain' => $first, 'token' => $second], "Idempotency-Key: $key");
}
header('Content-Type: application/json', response_code: $status);
echo $status === 204 ? '' : json_encode((object) $answer);

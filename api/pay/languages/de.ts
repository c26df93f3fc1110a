import type {Words} from './en.ts'

export const de: Words = {
  language: 'Deutsch',
  test_network: 'Testnetz: die Münzen hier sind nichts wert',
  reference: 'Referenz {reference}',

  send_exactly: 'Senden Sie genau',
  only: 'Senden Sie nur {token} auf {network}',
  only_counts:
    'Alles andere, was an diese Adresse gesendet wird, bezahlt diese Anfrage nicht und kann verloren sein: Fragen Sie den Händler.',
  address: 'Adresse',
  copy: 'Kopieren',
  copy_amount: 'Betrag kopieren',
  copy_address: 'Adresse kopieren',
  copy_txid: 'Transaktion kopieren',
  amount_copied: 'Der Betrag ist kopiert.',
  address_copied: 'Die Adresse ist kopiert.',
  txid_copied: 'Die Transaktion ist kopiert.',
  not_copied: 'Der Text ist markiert: Bitte kopieren Sie ihn von Hand.',
  pay_before: 'Zahlen Sie vor {time}',
  time_left: 'Verbleibende Zeit',
  code_of_address: 'QR-Code der Adresse',
  code_of_payment: 'QR-Code für Wallets, mit Adresse und Betrag',
  enter_amount: 'Der Code enthält nur die Adresse: Geben Sie den Betrag selbst ein.',
  other_code: 'Ein Code mit dem Betrag, für Wallets, die Zahlungslinks lesen',
  other_code_check:
    'Manche Wallets lesen solche Codes falsch. Prüfen Sie vor dem Senden, ob Ihre den Betrag und die Adresse von oben zeigt.',

  open_wallet: 'In Wallet öffnen',
  pay_with: 'Mit {wallet} bezahlen',
  wallet_asks: 'Bitte bestätigen Sie in Ihrer Wallet, und vergleichen Sie Betrag und Adresse.',
  wallet_sent: 'Ihre Wallet hat gesendet. Diese Seite zeigt, wann die Zahlung zu sehen ist.',
  wallet_maybe: 'Vielleicht hat Ihre Wallet gesendet. Sehen Sie dort nach, bevor Sie noch etwas senden.',
  wallet_failed: 'Ihre Wallet hat nichts gesendet. Sie können den Betrag selbst an die Adresse senden.',
  wallet_network:
    'Ihre Wallet kennt das Netz {network} nicht. Fügen Sie es dort hinzu, oder senden Sie den Betrag selbst an die Adresse.',

  next: 'Wie es weitergeht',
  next_send:
    'Senden Sie von Ihrer Wallet oder von einer Börse. Wird eine Gebühr vom Betrag abgezogen, rechnen Sie sie dazu: Der ganze Betrag muss ankommen.',
  next_seen:
    'Senden Sie nur einmal. Diese Seite zeigt die Zahlung, sobald das Netz sie hat: nach einigen Minuten, von einer Börse auch später.',
  next_final_in: 'Etwa {time} später ist sie endgültig, und {merchant} weiß, dass Sie bezahlt haben.',
  next_final: 'Sobald sie endgültig ist, weiß {merchant}, dass Sie bezahlt haben.',

  awaiting: 'Warten auf Ihre Zahlung',
  seen: 'Zahlung gesehen',
  close_page: 'Sie können diese Seite schließen.',
  partial: 'Noch nicht alles bezahlt',
  missing: 'Es fehlen noch {amount}.',
  ask_before: 'Die Anfrage ist beendet: Bitte fragen Sie den Händler, bevor Sie mehr senden.',
  paid: 'Bezahlt',
  enough: 'Das genügt: Es ist nichts mehr offen.',
  surplus: 'Das sind {amount} mehr als verlangt; nur der Händler kann sie zurückgeben.',
  paid_late: 'Verspätet bezahlt',
  was_late: 'Was nach dem Ende dieser Anfrage kam oder nicht rechtzeitig in einem Block war, zählt trotzdem.',
  seen_late: 'Zahlung nach dem Ende gesehen',
  will_count: 'Was nach dem Ende dieser Anfrage kam, zählt, sobald es endgültig ist.',
  expired: 'Diese Anfrage ist abgelaufen',
  cancelled: 'Diese Anfrage wurde storniert',
  send_nothing: 'Bitte senden Sie nichts mehr, und bitten Sie den Händler um eine neue.',
  still_counts: 'Wenn Sie schon gesendet haben, zahlen Sie nicht noch einmal: Es zählt auch noch, wenn es ankommt.',
  other_came: 'An diese Adresse wurde etwas anderes gesendet. Es bezahlt diese Anfrage nicht: Fragen Sie den Händler.',
  left_chain:
    'Eine Zahlung, die hier gesehen wurde, ist in keinem Block mehr. Wenn sie wiederkommt, zählt sie: Fragen Sie den Händler, bevor Sie noch einmal zahlen.',
  underpaid: 'Es wurde zu wenig bezahlt',
  underpaid_text:
    'Die Anfrage ist beendet. Bitte senden Sie nichts mehr, und fragen Sie den Händler, wie es weitergeht.',
  in_time: 'Sie wurde rechtzeitig gesendet und ist verspätet, falls kein Block sie bis {time} hat.',

  received: '{amount} erhalten.',
  seen_amount: '{amount} gesehen.',
  in_no_block: 'Die Zahlung ist noch in keinem Block.',
  confirmations: 'Bestätigungen: {count}.',
  confirmations_of: 'Bestätigungen: {count} von {needed}.',
  about_left: 'Endgültig in etwa {time}.',

  receipt: 'Beleg',
  print: 'Beleg drucken',
  paid_to: 'Bezahlt an',
  your_reference: 'Referenz',
  asked: 'Verlangt',
  received_in_all: 'Erhalten',
  network: 'Netz',
  paid_on: 'Bezahlt am',
  transaction: 'Transaktion',

  back: 'Zurück zu {merchant}',
  help: 'Hilfe',
  languages: 'Sprache',
  unreached: 'Der Zahlungsdienst ist nicht erreichbar; neuer Versuch. Was Sie sehen, ist von {time}.',
  no_payment: 'Hier ist keine Zahlung',
  no_payment_text: 'Bitte prüfen Sie den Link, oder bitten Sie den Händler noch einmal darum.',
  unavailable: 'Diese Seite kann im Moment nicht gezeigt werden',
  unavailable_text:
    'Sie versucht es automatisch noch einmal. Eine Zahlung, die Sie gesendet haben, zählt in jedem Fall.',
}

import type {Words} from './en.ts'

export const fr: Words = {
  language: 'Français',
  test_network: 'Réseau de test : les jetons d’ici ne valent rien',
  reference: 'Référence {reference}',

  send_exactly: 'Envoyez exactement',
  only: 'Envoyez uniquement {token} sur {network}',
  only_counts:
    'Tout autre envoi à cette adresse ne paie pas cette demande et peut être perdu : demandez au commerçant.',
  address: 'Adresse',
  copy: 'Copier',
  copy_amount: 'Copier le montant',
  copy_address: 'Copier l’adresse',
  copy_txid: 'Copier la transaction',
  amount_copied: 'Le montant est copié.',
  address_copied: 'L’adresse est copiée.',
  txid_copied: 'La transaction est copiée.',
  not_copied: 'Le texte est sélectionné : copiez-le à la main, s’il vous plaît.',
  pay_before: 'Payez avant {time}',
  time_left: 'Temps restant',
  code_of_address: 'Code QR de l’adresse',
  code_of_payment: 'Code QR pour portefeuilles, avec l’adresse et le montant',
  enter_amount: 'Le code ne contient que l’adresse : saisissez vous-même le montant.',
  other_code: 'Un code avec le montant, pour les portefeuilles qui lisent les liens de paiement',
  other_code_check:
    'Certains portefeuilles lisent mal ces codes. Avant d’envoyer, vérifiez que le vôtre affiche le montant et l’adresse ci-dessus.',

  open_wallet: 'Ouvrir dans le portefeuille',
  pay_with: 'Payer avec {wallet}',
  wallet_asks: 'Confirmez dans votre portefeuille, et comparez le montant et l’adresse.',
  wallet_sent: 'Votre portefeuille l’a envoyé. Cette page indique quand le paiement est vu.',
  wallet_maybe: 'Votre portefeuille l’a peut-être envoyé. Vérifiez-le avant d’envoyer autre chose.',
  wallet_failed: 'Votre portefeuille n’a rien envoyé. Vous pouvez envoyer vous-même le montant à l’adresse.',
  wallet_network:
    'Votre portefeuille ne connaît pas le réseau {network}. Ajoutez-le, ou envoyez vous-même le montant à l’adresse.',

  next: 'La suite',
  next_send:
    'Envoyez-le depuis votre portefeuille ou une plateforme d’échange. Si des frais sont déduits du montant, ajoutez-les : le montant entier doit arriver.',
  next_seen:
    'Envoyez-le une seule fois. Cette page l’affiche dès que le réseau l’a reçu : après quelques minutes, et plus tard depuis une plateforme d’échange.',
  next_final_in: 'Environ {time} plus tard, il est définitif, et {merchant} sait que vous avez payé.',
  next_final: 'Dès qu’il est définitif, {merchant} sait que vous avez payé.',

  awaiting: 'En attente de votre paiement',
  seen: 'Paiement vu',
  close_page: 'Vous pouvez fermer cette page.',
  partial: 'Tout n’est pas encore payé',
  missing: 'Il manque encore {amount}.',
  ask_before: 'La demande est terminée : demandez au commerçant avant d’envoyer davantage.',
  paid: 'Payé',
  enough: 'C’est suffisant : plus rien n’est dû.',
  surplus: 'C’est {amount} de plus que demandé ; seul le commerçant peut le rendre.',
  paid_late: 'Payé en retard',
  was_late:
    'Ce qui est arrivé après la fin de cette demande, ou n’était pas à temps dans un bloc, compte tout de même.',
  seen_late: 'Paiement vu après la fin',
  will_count: 'Ce qui est arrivé après la fin de cette demande compte dès que c’est définitif.',
  expired: 'Cette demande a expiré',
  cancelled: 'Cette demande a été annulée',
  send_nothing: 'N’envoyez plus rien, s’il vous plaît, et demandez-en une nouvelle au commerçant.',
  still_counts: 'Si vous l’avez déjà envoyé, ne payez pas une deuxième fois : il compte encore à son arrivée.',
  other_came: 'Autre chose a été envoyé à cette adresse. Cela ne paie pas cette demande : demandez au commerçant.',
  left_chain:
    'Un paiement qui avait été vu ici n’est plus dans aucun bloc. S’il revient, il compte : demandez au commerçant avant de payer une deuxième fois.',
  underpaid: 'Le montant payé est insuffisant',
  underpaid_text:
    'La demande est terminée. N’envoyez plus rien, s’il vous plaît, et demandez au commerçant comment continuer.',
  in_time: 'Il a été envoyé à temps, et est en retard si aucun bloc ne le contient avant {time}.',

  received: '{amount} reçus.',
  seen_amount: '{amount} vus.',
  in_no_block: 'Il n’est encore dans aucun bloc.',
  confirmations: 'Confirmations : {count}.',
  confirmations_of: 'Confirmations : {count} sur {needed}.',
  about_left: 'Définitif dans environ {time}.',

  receipt: 'Reçu',
  print: 'Imprimer le reçu',
  paid_to: 'Payé à',
  your_reference: 'Référence',
  asked: 'Demandé',
  received_in_all: 'Reçu',
  network: 'Réseau',
  paid_on: 'Payé le',
  transaction: 'Transaction',

  back: 'Retour à {merchant}',
  help: 'Aide',
  languages: 'Langue',
  unreached: 'Le service de paiement est injoignable ; nouvel essai. Ce que vous voyez date de {time}.',
  no_payment: 'Il n’y a pas de paiement ici',
  no_payment_text: 'Vérifiez le lien, ou redemandez-le au commerçant.',
  unavailable: 'Cette page ne peut pas être affichée pour le moment',
  unavailable_text: 'Elle réessaie automatiquement. Un paiement que vous avez envoyé compte dans tous les cas.',
}

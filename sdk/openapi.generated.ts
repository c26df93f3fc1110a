// Generated from the API's document: what each operation is sent, and answers where it succeeds.
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        Address: {
            /** @example 0x70997970C51812dc3A010C7d01b50e0d17dc79C8 */
            address: string;
            /** @enum {string} */
            chain: "ETH" | "SOL" | "TRON" | "BTC" | "POLYGON";
        };
        Asset: {
            /** @example USD Coin */
            display_name: string;
            /**
             * @description The `currency` of payment requests.
             * @example ETH-USDC
             */
            name: string;
        };
        Balance: {
            /** @enum {string} */
            chain: "ETH" | "SOL" | "TRON" | "BTC" | "POLYGON";
            /**
             * @description How many deposits and receipts that is.
             * @example 1
             */
            depositCount: number;
            /**
             * @description Service fee: (gross − held_back) × fee_bps / 10000, rounded down in base units.
             * @example 1.25
             */
            fee: string;
            /**
             * @description Sum of the final deposits that no payout has collected.
             * @example 250
             */
            gross: string;
            /**
             * @description The part of gross that no payout collects yet: what is on its addresses is too little to be worth moving. It is collected once more arrives there; on BTC, where each payment is moved by itself, once fees are low.
             * @example 0
             */
            held_back: string;
            /**
             * @description What a payout made now would pay: gross − held_back − fee.
             * @example 248.75
             */
            net: string;
            /**
             * @description Native coin or token of the chain.
             * @example USDC
             */
            token: string;
        };
        Delivery: {
            attempts: {
                /**
                 * Format: date-time
                 * @example 2026-01-31T12:00:00.000Z
                 */
                attempted_at: string;
                /** @example 42 */
                duration_ms: number;
                /**
                 * @description Null if it succeeded.
                 * @example null
                 */
                error: string | null;
                /**
                 * @description Null if there was no response.
                 * @example 204
                 */
                response_status: number | null;
            }[];
            /**
             * Format: date-time
             * @example 2026-01-31T12:00:00.000Z
             */
            created_at: string;
            /** @example evt_0192f3a4b5c67d8e9fa0b1c2d3e4f509 */
            event_id: string;
            /**
             * @example deposit.confirmed
             * @enum {string}
             */
            event_type: "deposit.pending" | "deposit.confirmed" | "deposit.reorged" | "payout.completed" | "payout.failed" | "payment_request.detected" | "payment_request.partially_paid" | "payment_request.paid" | "payment_request.underpaid" | "payment_request.expired" | "payment_request.cancelled" | "payment_request.reopened" | "webhook_endpoint.disabled";
            finished_at: string | null;
            /** @example dlv_0192f3a4b5c67d8e9fa0b1c2d3e4f50b */
            id: string;
            /** @example null */
            next_attempt_at: string | null;
            /**
             * @example delivered
             * @enum {string}
             */
            status: "pending" | "delivered" | "failed";
        };
        Deposit: {
            /**
             * @description The address that received it.
             * @example 0x70997970C51812dc3A010C7d01b50e0d17dc79C8
             */
            address: string;
            /**
             * @description Plain decimal, without trailing zeros.
             * @example 250
             */
            amount: string;
            /** @enum {string} */
            chain: "ETH" | "SOL" | "TRON" | "BTC" | "POLYGON";
            /**
             * @description Number of blocks from its own to the newest, both included; 0 if unconfirmed or reorged.
             * @example 9
             */
            confirmations: number;
            /**
             * Format: date-time
             * @example 2026-01-31T12:00:00.000Z
             */
            created_at: string;
            /**
             * @description Your own unique id of the user.
             * @example customer-42
             */
            external_ref: string;
            /** @example dep_0192f3a4b5c67d8e9fa0b1c2d3e4f507 */
            id: string;
            /**
             * @description The metadata of the user.
             * @example {
             *       "plan": "gold"
             *     }
             */
            metadata: {
                [key: string]: string;
            };
            /**
             * @description Position inside the transaction.
             * @example 3
             */
            output_index: number;
            /** @example 0x70997970C51812dc3A010C7d01b50e0d17dc79C8 */
            sender: string;
            /**
             * @description True if it was paid out before the service was restored from a backup, and the payout that collected it is not known. The balance does not include it, and no payout pays it again.
             * @example false
             */
            settled_before_restore: boolean;
            /**
             * @description The payout that collected it; null until then.
             * @example null
             */
            settlement_id: string | null;
            /**
             * @example final
             * @enum {string}
             */
            status: "pending" | "final" | "reorged";
            /**
             * @description Native coin or token of the chain.
             * @example USDC
             */
            token: string;
            /**
             * @description Transaction id.
             * @example 0x5c504ed432cb51138bcf09aa5e8a410dd4a1e204ef84bfed1be16dfba1b22060
             */
            txid: string;
            /** @example usr_0192f3a4b5c67d8e9fa0b1c2d3e4f506 */
            user_id: string;
        };
        DepositConfirmed: {
            /**
             * @description Plain decimal, without trailing zeros.
             * @example 250
             */
            amount: string;
            /** @enum {string} */
            chain: "ETH" | "SOL" | "TRON" | "BTC" | "POLYGON";
            /**
             * Format: date-time
             * @example 2026-01-31T12:00:00.000Z
             */
            created_at: string;
            /** @example dep_0192f3a4b5c67d8e9fa0b1c2d3e4f507 */
            deposit_id: string;
            /**
             * @description De-duplicate on it.
             * @example evt_0192f3a4b5c67d8e9fa0b1c2d3e4f509
             */
            id: string;
            /**
             * @description Rises in the order in which events happened; gaps are allowed.
             * @example 1042
             */
            sequence: number;
            /**
             * @description Only in a test of an endpoint: nothing happened.
             * @constant
             */
            test?: true;
            /**
             * @description Native coin or token of the chain.
             * @example USDC
             */
            token: string;
            /**
             * @description Transaction id.
             * @example 0x5c504ed432cb51138bcf09aa5e8a410dd4a1e204ef84bfed1be16dfba1b22060
             */
            txid: string;
            /** @constant */
            type: "deposit.confirmed";
            user: {
                /**
                 * @description Your own unique id of the user.
                 * @example customer-42
                 */
                external_ref: string;
                /** @example usr_0192f3a4b5c67d8e9fa0b1c2d3e4f506 */
                id: string;
                /**
                 * @description The metadata that the user had when it happened.
                 * @example {
                 *       "plan": "gold"
                 *     }
                 */
                metadata: {
                    [key: string]: string;
                };
            };
        };
        DepositPending: {
            /**
             * @description Plain decimal, without trailing zeros.
             * @example 250
             */
            amount: string;
            /** @enum {string} */
            chain: "ETH" | "SOL" | "TRON" | "BTC" | "POLYGON";
            /**
             * Format: date-time
             * @example 2026-01-31T12:00:00.000Z
             */
            created_at: string;
            /** @example dep_0192f3a4b5c67d8e9fa0b1c2d3e4f507 */
            deposit_id: string;
            /**
             * @description De-duplicate on it.
             * @example evt_0192f3a4b5c67d8e9fa0b1c2d3e4f509
             */
            id: string;
            /**
             * @description Rises in the order in which events happened; gaps are allowed.
             * @example 1042
             */
            sequence: number;
            /**
             * @description Only in a test of an endpoint: nothing happened.
             * @constant
             */
            test?: true;
            /**
             * @description Native coin or token of the chain.
             * @example USDC
             */
            token: string;
            /**
             * @description Transaction id.
             * @example 0x5c504ed432cb51138bcf09aa5e8a410dd4a1e204ef84bfed1be16dfba1b22060
             */
            txid: string;
            /** @constant */
            type: "deposit.pending";
            user: {
                /**
                 * @description Your own unique id of the user.
                 * @example customer-42
                 */
                external_ref: string;
                /** @example usr_0192f3a4b5c67d8e9fa0b1c2d3e4f506 */
                id: string;
                /**
                 * @description The metadata that the user had when it happened.
                 * @example {
                 *       "plan": "gold"
                 *     }
                 */
                metadata: {
                    [key: string]: string;
                };
            };
        };
        DepositReorged: {
            /**
             * @description Plain decimal, without trailing zeros.
             * @example 250
             */
            amount: string;
            /** @enum {string} */
            chain: "ETH" | "SOL" | "TRON" | "BTC" | "POLYGON";
            /**
             * Format: date-time
             * @example 2026-01-31T12:00:00.000Z
             */
            created_at: string;
            /** @example dep_0192f3a4b5c67d8e9fa0b1c2d3e4f507 */
            deposit_id: string;
            /**
             * @description De-duplicate on it.
             * @example evt_0192f3a4b5c67d8e9fa0b1c2d3e4f509
             */
            id: string;
            /**
             * @description Rises in the order in which events happened; gaps are allowed.
             * @example 1042
             */
            sequence: number;
            /**
             * @description Only in a test of an endpoint: nothing happened.
             * @constant
             */
            test?: true;
            /**
             * @description Native coin or token of the chain.
             * @example USDC
             */
            token: string;
            /**
             * @description Transaction id.
             * @example 0x5c504ed432cb51138bcf09aa5e8a410dd4a1e204ef84bfed1be16dfba1b22060
             */
            txid: string;
            /** @constant */
            type: "deposit.reorged";
            user: {
                /**
                 * @description Your own unique id of the user.
                 * @example customer-42
                 */
                external_ref: string;
                /** @example usr_0192f3a4b5c67d8e9fa0b1c2d3e4f506 */
                id: string;
                /**
                 * @description The metadata that the user had when it happened.
                 * @example {
                 *       "plan": "gold"
                 *     }
                 */
                metadata: {
                    [key: string]: string;
                };
            };
        };
        /** @description An error. Programs should use only the status and `error`. */
        Error: {
            /**
             * @description Code for programs.
             * @example invalid_request
             */
            error: string;
            /**
             * @description For people; may change.
             * @example external_ref: is missing
             */
            message?: string;
        };
        /** @description Keep a branch for types that you do not know: more may be added. */
        Event: components["schemas"]["DepositPending"] | components["schemas"]["DepositConfirmed"] | components["schemas"]["DepositReorged"] | components["schemas"]["PayoutCompleted"] | components["schemas"]["PayoutFailed"] | components["schemas"]["PaymentRequestDetected"] | components["schemas"]["PaymentRequestPartiallyPaid"] | components["schemas"]["PaymentRequestPaid"] | components["schemas"]["PaymentRequestUnderpaid"] | components["schemas"]["PaymentRequestExpired"] | components["schemas"]["PaymentRequestCancelled"] | components["schemas"]["PaymentRequestReopened"] | components["schemas"]["WebhookEndpointDisabled"];
        NewPayout: {
            /**
             * @description Service fee: gross × fee_bps / 10000, rounded down in base units.
             * @example 1.25
             */
            fee: string;
            /**
             * @description The balance that it collected.
             * @example 250
             */
            gross: string;
            /** @example pay_0192f3a4b5c67d8e9fa0b1c2d3e4f508 */
            id: string;
            /**
             * @description What is paid: gross − fee.
             * @example 248.75
             */
            net: string;
            /**
             * @example pending
             * @enum {string}
             */
            status: "pending" | "sweeping" | "swept" | "paying" | "completed" | "failed";
            /**
             * @description The transaction that paid it; null until it is completed.
             * @example null
             */
            txid: string | null;
        };
        NewUser: {
            addresses: components["schemas"]["Address"][];
            /**
             * @description Your own unique id of the user.
             * @example customer-42
             */
            external_ref: string;
            /** @example usr_0192f3a4b5c67d8e9fa0b1c2d3e4f506 */
            id: string;
            /**
             * @description Your own notes: at most 20 strings of at most 500 characters, by names of at most 100.
             * @example {
             *       "plan": "gold"
             *     }
             */
            metadata: {
                [key: string]: string;
            };
        };
        Payment: {
            /**
             * @description What was asked for.
             * @example 25
             */
            amount: string;
            /**
             * @description What arrived and is final; more than `amount` if too much was paid.
             * @example 25
             */
            amount_received: string;
            /**
             * @description Name of an asset in `GET /v1/crypto`.
             * @example ETH-USDC
             */
            currency: string;
            /**
             * @description Your own reference: the prefix of your account, `-`, and any text. Each reference has one request, for ever.
             * @example acme-1042
             */
            external_id: string;
            /**
             * @description Whether some of it came after the request expired, or was cancelled.
             * @example false
             */
            late: boolean;
            /**
             * @description Your own notes: at most 20 strings of at most 500 characters, by names of at most 100.
             * @example {
             *       "plan": "gold"
             *     }
             */
            metadata: {
                [key: string]: string;
            };
            /** @description Null while it is underpaid. */
            paid_at: string | null;
            /**
             * @description Null until paid out.
             * @example null
             */
            settlement: {
                /** @example pay_0192f3a4b5c67d8e9fa0b1c2d3e4f508 */
                id: string;
                /**
                 * @description Transaction id.
                 * @example 0x5c504ed432cb51138bcf09aa5e8a410dd4a1e204ef84bfed1be16dfba1b22060
                 */
                payout_txid: string;
                status: string;
            } | null;
            /**
             * @description The payout that collected it; null until all of it was collected.
             * @example null
             */
            settlement_id: string | null;
            /**
             * @description What is missing from `amount`, exactly; also if it may be missing.
             * @example 0
             */
            shortfall: string;
            /**
             * @description `underpaid`: the request expired with less than pays it.
             * @enum {string}
             */
            status: "paid" | "underpaid";
            /**
             * @description The transaction that completed the payment; the last one if it is underpaid.
             * @example 0x5c504ed432cb51138bcf09aa5e8a410dd4a1e204ef84bfed1be16dfba1b22060
             */
            txid: string;
        };
        PaymentRequest: {
            /**
             * @description Where to pay. The address is for this request only.
             * @example 0x70997970C51812dc3A010C7d01b50e0d17dc79C8
             */
            address: string;
            /**
             * @description The amount to pay. Plain decimal, without trailing zeros.
             * @example 25
             */
            amount: string;
            /**
             * @description Name of an asset in `GET /v1/crypto`.
             * @example ETH-USDC
             */
            currency: string;
            /**
             * Format: date-time
             * @description A later payment still counts, with `late`.
             * @example 2026-01-31T12:00:00.000Z
             */
            expires_at: string;
            /**
             * @description Your own reference: the prefix of your account, `-`, and any text. Each reference has one request, for ever.
             * @example acme-1042
             */
            external_id: string;
            /**
             * @description Your own notes: at most 20 strings of at most 500 characters, by names of at most 100.
             * @example {
             *       "plan": "gold"
             *     }
             */
            metadata: {
                [key: string]: string;
            };
            /**
             * @description Address and amount in one, in the format of the wallets of the chain.
             * @example ethereum:0x1c7D4B196Cb0C7B01d743Fbc6116a902379C7238@11155111/transfer?address=0x70997970C51812dc3A010C7d01b50e0d17dc79C8&uint256=25000000
             */
            payment_uri: string;
            /**
             * @description A page for your customer, with a QR code and what has arrived.
             * @example https://pay.example/pay/Vb1Zq0cWb3XcJ8mF5yTn2sKd7RgHe4La
             */
            payment_url: string;
            /**
             * @description Where the page sends your customer back to.
             * @example https://shop.example/orders/1042
             */
            return_url: string | null;
            /**
             * @description How much of it may be missing: it is paid all the same.
             * @example 0
             */
            tolerance: string;
        };
        PaymentRequestCancelled: {
            /** @example 0x70997970C51812dc3A010C7d01b50e0d17dc79C8 */
            address: string;
            /**
             * @description What was asked for.
             * @example 25
             */
            amount: string;
            /**
             * @description What was seen and is not final yet.
             * @example 0
             */
            amount_pending: string;
            /**
             * @description What is final.
             * @example 25
             */
            amount_received: string;
            /**
             * Format: date-time
             * @example 2026-01-31T12:00:00.000Z
             */
            created_at: string;
            /**
             * @description Name of an asset in `GET /v1/crypto`.
             * @example ETH-USDC
             */
            currency: string;
            /**
             * Format: date-time
             * @example 2026-01-31T12:00:00.000Z
             */
            expires_at: string;
            /**
             * @description Your own reference: the prefix of your account, `-`, and any text. Each reference has one request, for ever.
             * @example acme-1042
             */
            external_id: string;
            /**
             * @description De-duplicate on it.
             * @example evt_0192f3a4b5c67d8e9fa0b1c2d3e4f509
             */
            id: string;
            late: boolean;
            /**
             * @description Your notes of the request.
             * @example {
             *       "plan": "gold"
             *     }
             */
            metadata: {
                [key: string]: string;
            };
            /**
             * @description Rises in the order in which events happened; gaps are allowed.
             * @example 1042
             */
            sequence: number;
            /**
             * @description What is missing from `amount`, exactly.
             * @example 0
             */
            shortfall: string;
            /**
             * @example paid
             * @enum {string}
             */
            status: "awaiting" | "detected" | "paid" | "expired" | "underpaid" | "cancelled";
            /**
             * @description Only in a test of an endpoint: nothing happened.
             * @constant
             */
            test?: true;
            /**
             * @description How much of it may be missing.
             * @example 0
             */
            tolerance: string;
            txid: string | null;
            /** @constant */
            type: "payment_request.cancelled";
        };
        PaymentRequestDetected: {
            /** @example 0x70997970C51812dc3A010C7d01b50e0d17dc79C8 */
            address: string;
            /**
             * @description What was asked for.
             * @example 25
             */
            amount: string;
            /**
             * @description What was seen and is not final yet.
             * @example 0
             */
            amount_pending: string;
            /**
             * @description What is final.
             * @example 25
             */
            amount_received: string;
            /**
             * Format: date-time
             * @example 2026-01-31T12:00:00.000Z
             */
            created_at: string;
            /**
             * @description Name of an asset in `GET /v1/crypto`.
             * @example ETH-USDC
             */
            currency: string;
            /**
             * Format: date-time
             * @example 2026-01-31T12:00:00.000Z
             */
            expires_at: string;
            /**
             * @description Your own reference: the prefix of your account, `-`, and any text. Each reference has one request, for ever.
             * @example acme-1042
             */
            external_id: string;
            /**
             * @description De-duplicate on it.
             * @example evt_0192f3a4b5c67d8e9fa0b1c2d3e4f509
             */
            id: string;
            late: boolean;
            /**
             * @description Your notes of the request.
             * @example {
             *       "plan": "gold"
             *     }
             */
            metadata: {
                [key: string]: string;
            };
            /**
             * @description Rises in the order in which events happened; gaps are allowed.
             * @example 1042
             */
            sequence: number;
            /**
             * @description What is missing from `amount`, exactly.
             * @example 0
             */
            shortfall: string;
            /**
             * @example paid
             * @enum {string}
             */
            status: "awaiting" | "detected" | "paid" | "expired" | "underpaid" | "cancelled";
            /**
             * @description Only in a test of an endpoint: nothing happened.
             * @constant
             */
            test?: true;
            /**
             * @description How much of it may be missing.
             * @example 0
             */
            tolerance: string;
            txid: string | null;
            /** @constant */
            type: "payment_request.detected";
        };
        PaymentRequestExpired: {
            /** @example 0x70997970C51812dc3A010C7d01b50e0d17dc79C8 */
            address: string;
            /**
             * @description What was asked for.
             * @example 25
             */
            amount: string;
            /**
             * @description What was seen and is not final yet.
             * @example 0
             */
            amount_pending: string;
            /**
             * @description What is final.
             * @example 25
             */
            amount_received: string;
            /**
             * Format: date-time
             * @example 2026-01-31T12:00:00.000Z
             */
            created_at: string;
            /**
             * @description Name of an asset in `GET /v1/crypto`.
             * @example ETH-USDC
             */
            currency: string;
            /**
             * Format: date-time
             * @example 2026-01-31T12:00:00.000Z
             */
            expires_at: string;
            /**
             * @description Your own reference: the prefix of your account, `-`, and any text. Each reference has one request, for ever.
             * @example acme-1042
             */
            external_id: string;
            /**
             * @description De-duplicate on it.
             * @example evt_0192f3a4b5c67d8e9fa0b1c2d3e4f509
             */
            id: string;
            late: boolean;
            /**
             * @description Your notes of the request.
             * @example {
             *       "plan": "gold"
             *     }
             */
            metadata: {
                [key: string]: string;
            };
            /**
             * @description Rises in the order in which events happened; gaps are allowed.
             * @example 1042
             */
            sequence: number;
            /**
             * @description What is missing from `amount`, exactly.
             * @example 0
             */
            shortfall: string;
            /**
             * @example paid
             * @enum {string}
             */
            status: "awaiting" | "detected" | "paid" | "expired" | "underpaid" | "cancelled";
            /**
             * @description Only in a test of an endpoint: nothing happened.
             * @constant
             */
            test?: true;
            /**
             * @description How much of it may be missing.
             * @example 0
             */
            tolerance: string;
            txid: string | null;
            /** @constant */
            type: "payment_request.expired";
        };
        PaymentRequestItem: {
            /**
             * @description Where to pay. The address is for this request only.
             * @example 0x70997970C51812dc3A010C7d01b50e0d17dc79C8
             */
            address: string;
            /**
             * @description The amount to pay. Plain decimal, without trailing zeros.
             * @example 25
             */
            amount: string;
            /**
             * @description What is missing besides what was seen: 0 if that is enough, and never less than anybody can send.
             * @example 0
             */
            amount_missing: string;
            /**
             * @description What was seen and is not final yet.
             * @example 0
             */
            amount_pending: string;
            /**
             * @description What arrived and is final.
             * @example 25
             */
            amount_received: string;
            /**
             * @description When you cancelled it; null unless you did.
             * @example null
             */
            cancelled_at: string | null;
            /**
             * Format: date-time
             * @example 2026-01-31T12:00:00.000Z
             */
            created_at: string;
            /**
             * @description Name of an asset in `GET /v1/crypto`.
             * @example ETH-USDC
             */
            currency: string;
            /**
             * Format: date-time
             * @description A later payment still counts, with `late`.
             * @example 2026-01-31T12:00:00.000Z
             */
            expires_at: string;
            /**
             * @description Why it has this status, in words.
             * @example all of it came
             */
            explanation: string;
            /**
             * @description Your own reference: the prefix of your account, `-`, and any text. Each reference has one request, for ever.
             * @example acme-1042
             */
            external_id: string;
            /**
             * @description Whether some of it came after the request expired, or was cancelled.
             * @example false
             */
            late: boolean;
            /**
             * @description Your own notes: at most 20 strings of at most 500 characters, by names of at most 100.
             * @example {
             *       "plan": "gold"
             *     }
             */
            metadata: {
                [key: string]: string;
            };
            paid_at: string | null;
            /**
             * @description Where the page sends your customer back to.
             * @example https://shop.example/orders/1042
             */
            return_url: string | null;
            /**
             * @description What is missing from `amount`, exactly; also if it may be missing.
             * @example 0
             */
            shortfall: string;
            /**
             * @description `detected`: money was seen, and is not enough or not final yet. `expired`, `cancelled`: nothing came, or too little to count as a payment.
             * @example paid
             * @enum {string}
             */
            status: "awaiting" | "detected" | "paid" | "expired" | "underpaid" | "cancelled";
            /**
             * @description How much of it may be missing: it is paid all the same.
             * @example 0
             */
            tolerance: string;
            /** @description The transaction that completed the payment; until then the last final one. */
            txid: string | null;
        };
        PaymentRequestPaid: {
            /** @example 0x70997970C51812dc3A010C7d01b50e0d17dc79C8 */
            address: string;
            /**
             * @description What was asked for.
             * @example 25
             */
            amount: string;
            /**
             * @description What was seen and is not final yet.
             * @example 0
             */
            amount_pending: string;
            /**
             * @description What is final.
             * @example 25
             */
            amount_received: string;
            /**
             * Format: date-time
             * @example 2026-01-31T12:00:00.000Z
             */
            created_at: string;
            /**
             * @description Name of an asset in `GET /v1/crypto`.
             * @example ETH-USDC
             */
            currency: string;
            /**
             * Format: date-time
             * @example 2026-01-31T12:00:00.000Z
             */
            expires_at: string;
            /**
             * @description Your own reference: the prefix of your account, `-`, and any text. Each reference has one request, for ever.
             * @example acme-1042
             */
            external_id: string;
            /**
             * @description De-duplicate on it.
             * @example evt_0192f3a4b5c67d8e9fa0b1c2d3e4f509
             */
            id: string;
            late: boolean;
            /**
             * @description Your notes of the request.
             * @example {
             *       "plan": "gold"
             *     }
             */
            metadata: {
                [key: string]: string;
            };
            /**
             * @description Rises in the order in which events happened; gaps are allowed.
             * @example 1042
             */
            sequence: number;
            /**
             * @description What is missing from `amount`, exactly.
             * @example 0
             */
            shortfall: string;
            /**
             * @example paid
             * @enum {string}
             */
            status: "awaiting" | "detected" | "paid" | "expired" | "underpaid" | "cancelled";
            /**
             * @description Only in a test of an endpoint: nothing happened.
             * @constant
             */
            test?: true;
            /**
             * @description How much of it may be missing.
             * @example 0
             */
            tolerance: string;
            txid: string | null;
            /** @constant */
            type: "payment_request.paid";
        };
        PaymentRequestPartiallyPaid: {
            /** @example 0x70997970C51812dc3A010C7d01b50e0d17dc79C8 */
            address: string;
            /**
             * @description What was asked for.
             * @example 25
             */
            amount: string;
            /**
             * @description What was seen and is not final yet.
             * @example 0
             */
            amount_pending: string;
            /**
             * @description What is final.
             * @example 25
             */
            amount_received: string;
            /**
             * Format: date-time
             * @example 2026-01-31T12:00:00.000Z
             */
            created_at: string;
            /**
             * @description Name of an asset in `GET /v1/crypto`.
             * @example ETH-USDC
             */
            currency: string;
            /**
             * Format: date-time
             * @example 2026-01-31T12:00:00.000Z
             */
            expires_at: string;
            /**
             * @description Your own reference: the prefix of your account, `-`, and any text. Each reference has one request, for ever.
             * @example acme-1042
             */
            external_id: string;
            /**
             * @description De-duplicate on it.
             * @example evt_0192f3a4b5c67d8e9fa0b1c2d3e4f509
             */
            id: string;
            late: boolean;
            /**
             * @description Your notes of the request.
             * @example {
             *       "plan": "gold"
             *     }
             */
            metadata: {
                [key: string]: string;
            };
            /**
             * @description Rises in the order in which events happened; gaps are allowed.
             * @example 1042
             */
            sequence: number;
            /**
             * @description What is missing from `amount`, exactly.
             * @example 0
             */
            shortfall: string;
            /**
             * @example paid
             * @enum {string}
             */
            status: "awaiting" | "detected" | "paid" | "expired" | "underpaid" | "cancelled";
            /**
             * @description Only in a test of an endpoint: nothing happened.
             * @constant
             */
            test?: true;
            /**
             * @description How much of it may be missing.
             * @example 0
             */
            tolerance: string;
            txid: string | null;
            /** @constant */
            type: "payment_request.partially_paid";
        };
        PaymentRequestReopened: {
            /** @example 0x70997970C51812dc3A010C7d01b50e0d17dc79C8 */
            address: string;
            /**
             * @description What was asked for.
             * @example 25
             */
            amount: string;
            /**
             * @description What was seen and is not final yet.
             * @example 0
             */
            amount_pending: string;
            /**
             * @description What is final.
             * @example 25
             */
            amount_received: string;
            /**
             * Format: date-time
             * @example 2026-01-31T12:00:00.000Z
             */
            created_at: string;
            /**
             * @description Name of an asset in `GET /v1/crypto`.
             * @example ETH-USDC
             */
            currency: string;
            /**
             * Format: date-time
             * @example 2026-01-31T12:00:00.000Z
             */
            expires_at: string;
            /**
             * @description Your own reference: the prefix of your account, `-`, and any text. Each reference has one request, for ever.
             * @example acme-1042
             */
            external_id: string;
            /**
             * @description De-duplicate on it.
             * @example evt_0192f3a4b5c67d8e9fa0b1c2d3e4f509
             */
            id: string;
            late: boolean;
            /**
             * @description Your notes of the request.
             * @example {
             *       "plan": "gold"
             *     }
             */
            metadata: {
                [key: string]: string;
            };
            /**
             * @description Rises in the order in which events happened; gaps are allowed.
             * @example 1042
             */
            sequence: number;
            /**
             * @description What is missing from `amount`, exactly.
             * @example 0
             */
            shortfall: string;
            /**
             * @example paid
             * @enum {string}
             */
            status: "awaiting" | "detected" | "paid" | "expired" | "underpaid" | "cancelled";
            /**
             * @description Only in a test of an endpoint: nothing happened.
             * @constant
             */
            test?: true;
            /**
             * @description How much of it may be missing.
             * @example 0
             */
            tolerance: string;
            txid: string | null;
            /** @constant */
            type: "payment_request.reopened";
        };
        PaymentRequestState: {
            /**
             * @description Where to pay. The address is for this request only.
             * @example 0x70997970C51812dc3A010C7d01b50e0d17dc79C8
             */
            address: string;
            /**
             * @description The amount to pay. Plain decimal, without trailing zeros.
             * @example 25
             */
            amount: string;
            /**
             * @description What is missing besides what was seen: 0 if that is enough, and never less than anybody can send.
             * @example 0
             */
            amount_missing: string;
            /**
             * @description What was seen and is not final yet.
             * @example 0
             */
            amount_pending: string;
            /**
             * @description What arrived and is final.
             * @example 25
             */
            amount_received: string;
            /**
             * @description When you cancelled it; null unless you did.
             * @example null
             */
            cancelled_at: string | null;
            /**
             * Format: date-time
             * @example 2026-01-31T12:00:00.000Z
             */
            created_at: string;
            /**
             * @description Name of an asset in `GET /v1/crypto`.
             * @example ETH-USDC
             */
            currency: string;
            /**
             * Format: date-time
             * @description A later payment still counts, with `late`.
             * @example 2026-01-31T12:00:00.000Z
             */
            expires_at: string;
            /**
             * @description Why it has this status, in words.
             * @example all of it came
             */
            explanation: string;
            /**
             * @description Your own reference: the prefix of your account, `-`, and any text. Each reference has one request, for ever.
             * @example acme-1042
             */
            external_id: string;
            /**
             * @description Whether some of it came after the request expired, or was cancelled.
             * @example false
             */
            late: boolean;
            /**
             * @description Your own notes: at most 20 strings of at most 500 characters, by names of at most 100.
             * @example {
             *       "plan": "gold"
             *     }
             */
            metadata: {
                [key: string]: string;
            };
            paid_at: string | null;
            /** @description Address and what is still missing in one; null if nothing is missing, or the request has ended. */
            payment_uri: string | null;
            /**
             * @description A page for your customer, with a QR code and what has arrived.
             * @example https://pay.example/pay/Vb1Zq0cWb3XcJ8mF5yTn2sKd7RgHe4La
             */
            payment_url: string;
            /** @description The payments that arrived, in the order in which they were seen. */
            receipts: components["schemas"]["Receipt"][];
            /**
             * @description Where the page sends your customer back to.
             * @example https://shop.example/orders/1042
             */
            return_url: string | null;
            /**
             * @description What is missing from `amount`, exactly; also if it may be missing.
             * @example 0
             */
            shortfall: string;
            /**
             * @description `detected`: money was seen, and is not enough or not final yet. `expired`, `cancelled`: nothing came, or too little to count as a payment.
             * @example paid
             * @enum {string}
             */
            status: "awaiting" | "detected" | "paid" | "expired" | "underpaid" | "cancelled";
            /**
             * @description How much of it may be missing: it is paid all the same.
             * @example 0
             */
            tolerance: string;
            /** @description The transaction that completed the payment; until then the last final one. */
            txid: string | null;
        };
        PaymentRequestUnderpaid: {
            /** @example 0x70997970C51812dc3A010C7d01b50e0d17dc79C8 */
            address: string;
            /**
             * @description What was asked for.
             * @example 25
             */
            amount: string;
            /**
             * @description What was seen and is not final yet.
             * @example 0
             */
            amount_pending: string;
            /**
             * @description What is final.
             * @example 25
             */
            amount_received: string;
            /**
             * Format: date-time
             * @example 2026-01-31T12:00:00.000Z
             */
            created_at: string;
            /**
             * @description Name of an asset in `GET /v1/crypto`.
             * @example ETH-USDC
             */
            currency: string;
            /**
             * Format: date-time
             * @example 2026-01-31T12:00:00.000Z
             */
            expires_at: string;
            /**
             * @description Your own reference: the prefix of your account, `-`, and any text. Each reference has one request, for ever.
             * @example acme-1042
             */
            external_id: string;
            /**
             * @description De-duplicate on it.
             * @example evt_0192f3a4b5c67d8e9fa0b1c2d3e4f509
             */
            id: string;
            late: boolean;
            /**
             * @description Your notes of the request.
             * @example {
             *       "plan": "gold"
             *     }
             */
            metadata: {
                [key: string]: string;
            };
            /**
             * @description Rises in the order in which events happened; gaps are allowed.
             * @example 1042
             */
            sequence: number;
            /**
             * @description What is missing from `amount`, exactly.
             * @example 0
             */
            shortfall: string;
            /**
             * @example paid
             * @enum {string}
             */
            status: "awaiting" | "detected" | "paid" | "expired" | "underpaid" | "cancelled";
            /**
             * @description Only in a test of an endpoint: nothing happened.
             * @constant
             */
            test?: true;
            /**
             * @description How much of it may be missing.
             * @example 0
             */
            tolerance: string;
            txid: string | null;
            /** @constant */
            type: "payment_request.underpaid";
        };
        Payout: {
            /**
             * @description Where it is paid to. A later change of the payout address does not change it.
             * @example 0x70997970C51812dc3A010C7d01b50e0d17dc79C8
             */
            address: string;
            /** @enum {string} */
            chain: "ETH" | "SOL" | "TRON" | "BTC" | "POLYGON";
            /** @description When its payment was final; null until then. */
            completed_at: string | null;
            /**
             * @description Why it failed; null unless it did. Its deposits are in the balance again.
             * @example null
             */
            error: {
                /** @enum {string} */
                code: "address_not_whitelisted" | "custody_rejected" | "insufficient_treasury_funds" | "transaction_reverted" | "transaction_expired" | "broadcast_rejected" | "below_rent_exempt" | "destination_not_payable" | "deposit_reorged" | "deposits_blocked" | "cancelled" | "timed_out";
                message: string;
            } | null;
            /**
             * @description Service fee: gross × fee_bps / 10000, rounded down in base units.
             * @example 1.25
             */
            fee: string;
            /**
             * @description The balance that it collected.
             * @example 250
             */
            gross: string;
            /** @example pay_0192f3a4b5c67d8e9fa0b1c2d3e4f508 */
            id: string;
            /**
             * @description What is paid: gross − fee.
             * @example 248.75
             */
            net: string;
            /**
             * @example completed
             * @enum {string}
             */
            status: "pending" | "sweeping" | "swept" | "paying" | "completed" | "failed";
            /**
             * @description Native coin or token of the chain.
             * @example USDC
             */
            token: string;
            /** @description The transaction that paid it; null until it is completed. */
            txid: string | null;
            /**
             * @description What its next step waits for, and since when; null while nothing is in its way, and once it has ended.
             * @example null
             */
            waiting: {
                /** @enum {string} */
                code: "address_not_whitelisted" | "limit_reached" | "fee_budget_reached" | "insufficient_treasury_funds" | "token_stopped" | "sweeps_failed" | "treasury_immature" | "treasury_below_rent" | "chain_halted" | "chain_unreachable" | "chain_lagging" | "fee_too_high" | "transaction_would_fail" | "destination_not_payable" | "below_rent_exempt" | "custody_rejected" | "service_error" | "cancelling" | "custody_unavailable" | "unresolved_transaction" | "unproven_expiry" | "payment_contested";
                message: string;
                /**
                 * Format: date-time
                 * @example 2026-01-31T12:00:00.000Z
                 */
                since: string;
            } | null;
        };
        PayoutAddress: {
            /** @example 0x70997970C51812dc3A010C7d01b50e0d17dc79C8 */
            address: string;
            /** @enum {string} */
            chain: "ETH" | "SOL" | "TRON" | "BTC" | "POLYGON";
        };
        PayoutAddressState: {
            /** @example 0x70997970C51812dc3A010C7d01b50e0d17dc79C8 */
            address: string;
            /** @enum {string} */
            chain: "ETH" | "SOL" | "TRON" | "BTC" | "POLYGON";
            /**
             * Format: date-time
             * @description When it was registered, or last changed.
             * @example 2026-01-31T12:00:00.000Z
             */
            updated_at: string;
            /** @description Whether it is on the operator's whitelist now: nothing is paid elsewhere. */
            whitelisted: boolean;
            /** @description Since when it is, or from when on it will be; null if it is not on the list. */
            whitelisted_at: string | null;
        };
        PayoutCompleted: {
            /** @example 0x70997970C51812dc3A010C7d01b50e0d17dc79C8 */
            address: string;
            /** @enum {string} */
            chain: "ETH" | "SOL" | "TRON" | "BTC" | "POLYGON";
            /**
             * Format: date-time
             * @example 2026-01-31T12:00:00.000Z
             */
            created_at: string;
            error: null;
            /**
             * @description Plain decimal, without trailing zeros.
             * @example 1.25
             */
            fee: string;
            /**
             * @description Plain decimal, without trailing zeros.
             * @example 250
             */
            gross: string;
            /**
             * @description De-duplicate on it.
             * @example evt_0192f3a4b5c67d8e9fa0b1c2d3e4f509
             */
            id: string;
            /**
             * @description Plain decimal, without trailing zeros.
             * @example 248.75
             */
            net: string;
            /** @example pay_0192f3a4b5c67d8e9fa0b1c2d3e4f508 */
            payout_id: string;
            /**
             * @description Rises in the order in which events happened; gaps are allowed.
             * @example 1042
             */
            sequence: number;
            /**
             * @description Only in a test of an endpoint: nothing happened.
             * @constant
             */
            test?: true;
            /**
             * @description Native coin or token of the chain.
             * @example USDC
             */
            token: string;
            /**
             * @description The transaction that paid it.
             * @example 0x5c504ed432cb51138bcf09aa5e8a410dd4a1e204ef84bfed1be16dfba1b22060
             */
            txid: string;
            /** @constant */
            type: "payout.completed";
        };
        PayoutFailed: {
            /** @example 0x70997970C51812dc3A010C7d01b50e0d17dc79C8 */
            address: string;
            /** @enum {string} */
            chain: "ETH" | "SOL" | "TRON" | "BTC" | "POLYGON";
            /**
             * Format: date-time
             * @example 2026-01-31T12:00:00.000Z
             */
            created_at: string;
            /**
             * @example {
             *       "code": "address_not_whitelisted",
             *       "message": "the address was not on the whitelist for a day"
             *     }
             */
            error: {
                /** @enum {string} */
                code: "address_not_whitelisted" | "custody_rejected" | "insufficient_treasury_funds" | "transaction_reverted" | "transaction_expired" | "broadcast_rejected" | "below_rent_exempt" | "destination_not_payable" | "deposit_reorged" | "deposits_blocked" | "cancelled" | "timed_out";
                message: string;
            };
            /**
             * @description Plain decimal, without trailing zeros.
             * @example 1.25
             */
            fee: string;
            /**
             * @description Plain decimal, without trailing zeros.
             * @example 250
             */
            gross: string;
            /**
             * @description De-duplicate on it.
             * @example evt_0192f3a4b5c67d8e9fa0b1c2d3e4f509
             */
            id: string;
            /**
             * @description Plain decimal, without trailing zeros.
             * @example 248.75
             */
            net: string;
            /** @example pay_0192f3a4b5c67d8e9fa0b1c2d3e4f508 */
            payout_id: string;
            /**
             * @description Rises in the order in which events happened; gaps are allowed.
             * @example 1042
             */
            sequence: number;
            /**
             * @description Only in a test of an endpoint: nothing happened.
             * @constant
             */
            test?: true;
            /**
             * @description Native coin or token of the chain.
             * @example USDC
             */
            token: string;
            txid: null;
            /** @constant */
            type: "payout.failed";
        };
        PayoutItem: {
            /**
             * @description Where it is paid to. A later change of the payout address does not change it.
             * @example 0x70997970C51812dc3A010C7d01b50e0d17dc79C8
             */
            address: string;
            /** @enum {string} */
            chain: "ETH" | "SOL" | "TRON" | "BTC" | "POLYGON";
            /** @description When its payment was final; null until then. */
            completed_at: string | null;
            /**
             * Format: date-time
             * @example 2026-01-31T12:00:00.000Z
             */
            created_at: string;
            /**
             * @description Why it failed; null unless it did. Its deposits are in the balance again.
             * @example null
             */
            error: {
                /** @enum {string} */
                code: "address_not_whitelisted" | "custody_rejected" | "insufficient_treasury_funds" | "transaction_reverted" | "transaction_expired" | "broadcast_rejected" | "below_rent_exempt" | "destination_not_payable" | "deposit_reorged" | "deposits_blocked" | "cancelled" | "timed_out";
                message: string;
            } | null;
            /**
             * @description Service fee: gross × fee_bps / 10000, rounded down in base units.
             * @example 1.25
             */
            fee: string;
            /**
             * @description The balance that it collected.
             * @example 250
             */
            gross: string;
            /** @example pay_0192f3a4b5c67d8e9fa0b1c2d3e4f508 */
            id: string;
            /**
             * @description What is paid: gross − fee.
             * @example 248.75
             */
            net: string;
            /**
             * @example completed
             * @enum {string}
             */
            status: "pending" | "sweeping" | "swept" | "paying" | "completed" | "failed";
            /**
             * @description Native coin or token of the chain.
             * @example USDC
             */
            token: string;
            /** @description The transaction that paid it; null until it is completed. */
            txid: string | null;
            /**
             * @description What its next step waits for, and since when; null while nothing is in its way, and once it has ended.
             * @example null
             */
            waiting: {
                /** @enum {string} */
                code: "address_not_whitelisted" | "limit_reached" | "fee_budget_reached" | "insufficient_treasury_funds" | "token_stopped" | "sweeps_failed" | "treasury_immature" | "treasury_below_rent" | "chain_halted" | "chain_unreachable" | "chain_lagging" | "fee_too_high" | "transaction_would_fail" | "destination_not_payable" | "below_rent_exempt" | "custody_rejected" | "service_error" | "cancelling" | "custody_unavailable" | "unresolved_transaction" | "unproven_expiry" | "payment_contested";
                message: string;
                /**
                 * Format: date-time
                 * @example 2026-01-31T12:00:00.000Z
                 */
                since: string;
            } | null;
        };
        PayoutPart: {
            /**
             * @description Its part of the gross: below zero for a debt.
             * @example 250
             */
            amount: string;
            /**
             * Format: date-time
             * @description When it was first seen; of an adjustment, when it was made.
             * @example 2026-01-31T12:00:00.000Z
             */
            created_at: string;
            /** @description The deposit, or the one that an adjustment is about. */
            deposit_id: string | null;
            /**
             * @description Your reference of the payment request.
             * @example null
             */
            external_id: string | null;
            external_ref: string | null;
            /**
             * @description Position inside the transaction.
             * @example 3
             */
            output_index: number | null;
            /**
             * @description Why there is an adjustment; null for others.
             * @example null
             */
            reason: ("deposit_lost" | "deposit_back" | "payout_failed" | "payout_recovered" | "paid_after_all") | null;
            /**
             * @description Of a deposit or receipt, now. One that was lost in a reorganisation stays in a payout that had begun to pay: a later payout has the debt.
             * @example final
             */
            status: ("pending" | "final" | "reorged") | null;
            txid: string | null;
            /**
             * @description `deposit`: of a user. `receipt`: what reached the address of a payment request. `adjustment`: a debt, or what cancels one.
             * @example deposit
             * @enum {string}
             */
            type: "deposit" | "receipt" | "adjustment";
            user_id: string | null;
        };
        Receipt: {
            /**
             * @description Plain decimal, without trailing zeros.
             * @example 25
             */
            amount: string;
            /**
             * @description Number of blocks from its own to the newest, both included; 0 while it is in no block.
             * @example 12
             */
            confirmations: number;
            /**
             * Format: date-time
             * @example 2026-01-31T12:00:00.000Z
             */
            created_at: string;
            /**
             * @description Whether it came after the request expired, or was cancelled.
             * @example false
             */
            late: boolean;
            /**
             * @description Position inside the transaction.
             * @example 3
             */
            output_index: number;
            /**
             * @description Who paid, as the chain says. Never pay back to it: it may belong to an exchange.
             * @example 0x70997970C51812dc3A010C7d01b50e0d17dc79C8
             */
            sender: string;
            /**
             * @description The payout that collected it; null until then.
             * @example null
             */
            settlement_id: string | null;
            /**
             * @example final
             * @enum {string}
             */
            status: "pending" | "final";
            /**
             * @description Transaction id.
             * @example 0x5c504ed432cb51138bcf09aa5e8a410dd4a1e204ef84bfed1be16dfba1b22060
             */
            txid: string;
        };
        SingleDeposit: {
            /**
             * @description The address that received it.
             * @example 0x70997970C51812dc3A010C7d01b50e0d17dc79C8
             */
            address: string;
            /**
             * @description Plain decimal, without trailing zeros.
             * @example 250
             */
            amount: string;
            /** @enum {string} */
            chain: "ETH" | "SOL" | "TRON" | "BTC" | "POLYGON";
            /**
             * @description Number of blocks from its own to the newest, both included; 0 if unconfirmed or reorged.
             * @example 9
             */
            confirmations: number;
            /**
             * Format: date-time
             * @example 2026-01-31T12:00:00.000Z
             */
            created_at: string;
            /**
             * @description Your own unique id of the user.
             * @example customer-42
             */
            external_ref: string;
            finalised_at: string | null;
            /**
             * @description While the deposit is final and no payout can collect it; null otherwise.
             * @example null
             */
            held_back: {
                /** @description What must be on the address: less is not worth moving. (On BTC: in the output.) */
                minimum: string | null;
                /** @description How much of that is missing. (On BTC what arrives later does not change it.) */
                missing: string | null;
                /**
                 * @description `address_blocked`: the chain does not let the token leave the address now.
                 * @enum {string}
                 */
                reason: "below_minimum" | "address_blocked";
            } | null;
            /** @example dep_0192f3a4b5c67d8e9fa0b1c2d3e4f507 */
            id: string;
            /**
             * @description The metadata of the user.
             * @example {
             *       "plan": "gold"
             *     }
             */
            metadata: {
                [key: string]: string;
            };
            /**
             * @description Position inside the transaction.
             * @example 3
             */
            output_index: number;
            /** @example 0x70997970C51812dc3A010C7d01b50e0d17dc79C8 */
            sender: string;
            /**
             * @description True if it was paid out before the service was restored from a backup, and the payout that collected it is not known. The balance does not include it, and no payout pays it again.
             * @example false
             */
            settled_before_restore: boolean;
            /**
             * @description Null until paid out.
             * @example null
             */
            settlement: {
                /** @example pay_0192f3a4b5c67d8e9fa0b1c2d3e4f508 */
                id: string;
                /**
                 * @description Transaction id.
                 * @example 0x5c504ed432cb51138bcf09aa5e8a410dd4a1e204ef84bfed1be16dfba1b22060
                 */
                payout_txid: string;
                status: string;
            } | null;
            /**
             * @description The payout that collected it; null until then.
             * @example null
             */
            settlement_id: string | null;
            /**
             * @example final
             * @enum {string}
             */
            status: "pending" | "final" | "reorged";
            /**
             * @description Native coin or token of the chain.
             * @example USDC
             */
            token: string;
            /**
             * @description Transaction id.
             * @example 0x5c504ed432cb51138bcf09aa5e8a410dd4a1e204ef84bfed1be16dfba1b22060
             */
            txid: string;
            /** @example usr_0192f3a4b5c67d8e9fa0b1c2d3e4f506 */
            user_id: string;
        };
        Statement: {
            /**
             * @description Debts for what was paid although its payment had ended, below zero.
             * @example 0
             */
            adjustments: string;
            /** @enum {string} */
            chain: "ETH" | "SOL" | "TRON" | "BTC" | "POLYGON";
            /**
             * @description The gross balance at `to`: the sum of all of these.
             * @example 150
             */
            closing_balance: string;
            /**
             * @description What became final, receipts of payment requests included.
             * @example 250
             */
            deposits: string;
            /**
             * @description Final deposits that a reorganisation took back, below zero.
             * @example 0
             */
            deposits_lost: string;
            /**
             * @description What they claimed for the service fee, in the same way.
             * @example -0.5
             */
            fees: string;
            /**
             * @description The part of it that no payout could collect then; null of a time before this was kept.
             * @example 0
             */
            held_back: string | null;
            /**
             * @description The gross balance at `from`.
             * @example 0
             */
            opening_balance: string;
            /**
             * @description What payouts claimed for you (their net), below zero, less what came back of failed ones.
             * @example -99.5
             */
            payouts: string;
            /**
             * @description The net of the payouts that were requested before `to` and had not ended by then: it is out of the balance, and not paid yet.
             * @example 0
             */
            payouts_under_way: string;
            /**
             * @description Native coin or token of the chain.
             * @example USDC
             */
            token: string;
        };
        StatementLine: {
            /**
             * @description How it changed the balance: below zero for what left.
             * @example 250
             */
            amount: string;
            /** @enum {string} */
            chain: "ETH" | "SOL" | "TRON" | "BTC" | "POLYGON";
            /**
             * Format: date-time
             * @description When it was posted: never earlier than what it is about.
             * @example 2026-01-31T12:00:00.000Z
             */
            created_at: string;
            deposit_id: string | null;
            /**
             * @description Your reference of the payment request.
             * @example null
             */
            external_id: string | null;
            external_ref: string | null;
            /** @example null */
            payout_id: string | null;
            /**
             * @description Native coin or token of the chain.
             * @example USDC
             */
            token: string;
            /** @description Of the deposit, or of what paid the payout; null while it is not paid. */
            txid: string | null;
            /**
             * @description `deposit`: it became final. `deposit_lost`: a final one was taken back. `payout`, `fee`: what a payout claimed; above zero if it failed. `adjustment`: a debt.
             * @example deposit
             * @enum {string}
             */
            type: "deposit" | "deposit_lost" | "payout" | "fee" | "adjustment";
            user_id: string | null;
        };
        User: {
            addresses: components["schemas"]["Address"][];
            /**
             * Format: date-time
             * @example 2026-01-31T12:00:00.000Z
             */
            created_at: string;
            /**
             * @description Your own unique id of the user.
             * @example customer-42
             */
            external_ref: string;
            /** @example usr_0192f3a4b5c67d8e9fa0b1c2d3e4f506 */
            id: string;
            /**
             * @description Your own notes: at most 20 strings of at most 500 characters, by names of at most 100.
             * @example {
             *       "plan": "gold"
             *     }
             */
            metadata: {
                [key: string]: string;
            };
        };
        UserAddresses: {
            addresses: components["schemas"]["Address"][];
            /** @example usr_0192f3a4b5c67d8e9fa0b1c2d3e4f506 */
            id: string;
        };
        WebhookEndpoint: {
            /**
             * Format: date-time
             * @example 2026-01-31T12:00:00.000Z
             */
            created_at: string;
            /**
             * @description `merchant`, `gone` (the endpoint responded with 410) or `failing` (five days without a success).
             * @example null
             */
            disabled_reason: string | null;
            enabled: boolean;
            /**
             * @example [
             *       "deposit.pending",
             *       "deposit.confirmed",
             *       "payout.completed",
             *       "payout.failed"
             *     ]
             */
            event_types: ("deposit.pending" | "deposit.confirmed" | "deposit.reorged" | "payout.completed" | "payout.failed" | "payment_request.detected" | "payment_request.partially_paid" | "payment_request.paid" | "payment_request.underpaid" | "payment_request.expired" | "payment_request.cancelled" | "payment_request.reopened" | "webhook_endpoint.disabled")[];
            /**
             * @description First failure since the last success.
             * @example null
             */
            failing_since: string | null;
            /** @example whe_0192f3a4b5c67d8e9fa0b1c2d3e4f50a */
            id: string;
            /** @example https://example.com/webhooks/sluice */
            url: string;
        };
        WebhookEndpointDisabled: {
            /**
             * Format: date-time
             * @example 2026-01-31T12:00:00.000Z
             */
            created_at: string;
            /**
             * @description De-duplicate on it.
             * @example evt_0192f3a4b5c67d8e9fa0b1c2d3e4f509
             */
            id: string;
            /**
             * @description It answered nothing but 410 for a minute, or it failed for five days.
             * @example failing
             * @enum {string}
             */
            reason: "gone" | "failing";
            /**
             * @description Rises in the order in which events happened; gaps are allowed.
             * @example 1042
             */
            sequence: number;
            /**
             * @description Only in a test of an endpoint: nothing happened.
             * @constant
             */
            test?: true;
            /** @constant */
            type: "webhook_endpoint.disabled";
            /** @example https://shop.example/webhooks */
            url: string;
            /** @example whe_0192f3a4b5c67d8e9fa0b1c2d3e4f50a */
            webhook_endpoint_id: string;
        };
        WebhookEndpointWithSecret: {
            /**
             * Format: date-time
             * @example 2026-01-31T12:00:00.000Z
             */
            created_at: string;
            /**
             * @description `merchant`, `gone` (the endpoint responded with 410) or `failing` (five days without a success).
             * @example null
             */
            disabled_reason: string | null;
            enabled: boolean;
            /**
             * @example [
             *       "deposit.pending",
             *       "deposit.confirmed",
             *       "payout.completed",
             *       "payout.failed"
             *     ]
             */
            event_types: ("deposit.pending" | "deposit.confirmed" | "deposit.reorged" | "payout.completed" | "payout.failed" | "payment_request.detected" | "payment_request.partially_paid" | "payment_request.paid" | "payment_request.underpaid" | "payment_request.expired" | "payment_request.cancelled" | "payment_request.reopened" | "webhook_endpoint.disabled")[];
            /**
             * @description First failure since the last success.
             * @example null
             */
            failing_since: string | null;
            /** @example whe_0192f3a4b5c67d8e9fa0b1c2d3e4f50a */
            id: string;
            /**
             * @description Signs the events (Standard Webhooks). Shown here and never again.
             * @example whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw
             */
            secret: string;
            /** @example https://example.com/webhooks/sluice */
            url: string;
        };
    };
}
export type $defs = Record<string, never>;
export interface operations {
    getLiveness: {
        parameters: {
            query?: never;
        };
        requestBody?: never;
        responses: {
            /** @description It is alive. */
            200: {
                content: {
                    /**
                     * @example {
                     *       "alive": true
                     *     }
                     */
                    "application/json": {
                        /** @enum {boolean} */
                        alive: true;
                    };
                };
            };
        };
    };
    listPayments: {
        parameters: {
            query?: {
                currency?: "ETH" | "ETH-USDC" | "POL" | "POLYGON-USDC" | "BTC" | "TRX" | "TRON-USDT" | "SOL" | "SOL-USDC" | "SOL-USDT";
                /** @description `next_cursor` of the page before, with the same filters. */
                cursor?: string;
                /**
                 * @description Your own reference: the prefix of your account, `-`, and any text. Each reference has one request, for ever.
                 * @example acme-1042
                 */
                external_id?: string;
                /** @description Items per page. */
                limit?: number;
                status?: ("paid" | "underpaid") | ("paid" | "underpaid")[];
            };
        };
        requestBody?: never;
        responses: {
            /** @description One page of the list. */
            200: {
                content: {
                    /**
                     * @example {
                     *       "code": 200,
                     *       "data": [
                     *         {
                     *           "external_id": "acme-1042",
                     *           "currency": "ETH-USDC",
                     *           "amount": "25",
                     *           "amount_received": "25",
                     *           "shortfall": "0",
                     *           "status": "paid",
                     *           "late": false,
                     *           "txid": "0x5c504ed432cb51138bcf09aa5e8a410dd4a1e204ef84bfed1be16dfba1b22060",
                     *           "paid_at": "2026-01-31T12:00:00.000Z",
                     *           "settlement_id": null,
                     *           "settlement": null,
                     *           "metadata": {
                     *             "plan": "gold"
                     *           }
                     *         }
                     *       ],
                     *       "next_cursor": "AQAAAAAAAAAAAAAAAAAAAAKISNVo",
                     *       "has_more": true
                     *     }
                     */
                    "application/json": {
                        /** @enum {number} */
                        code: 200;
                        data: components["schemas"]["Payment"][];
                        has_more: boolean;
                        /**
                         * @description Cursor of the next page; null on the last one.
                         * @example AQAAAAAAAAAAAAAAAAAAAAKISNVo
                         */
                        next_cursor: string | null;
                    };
                };
            };
        };
    };
    getReadiness: {
        parameters: {
            query?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Requests can be served. */
            200: {
                content: {
                    /**
                     * @example {
                     *       "ready": true,
                     *       "database": true,
                     *       "replica": null,
                     *       "waiting_for": [],
                     *       "chains": [
                     *         {
                     *           "chain": "ETH",
                     *           "head_height": 8100007,
                     *           "final_height": 8099943,
                     *           "halted": false,
                     *           "lag_seconds": 6.4,
                     *           "waiting": null,
                     *           "way_out": null
                     *         }
                     *       ]
                     *     }
                     */
                    "application/json": {
                        chains: {
                            /** @enum {string} */
                            chain: "ETH" | "SOL" | "TRON" | "BTC" | "POLYGON";
                            /** @example 8099943 */
                            final_height: number | null;
                            /** @example false */
                            halted: boolean;
                            /** @example 8100007 */
                            head_height: number | null;
                            /**
                             * @description Age of the newest indexed block; null if the chain was never followed.
                             * @example 6.4
                             */
                            lag_seconds: number | null;
                            /**
                             * @description Why the chain is not read now, if known: the kind of the incident that halts it, or why its indexer waits. sluice status says more.
                             * @example null
                             */
                            waiting: string | null;
                            /**
                             * @description What an operator has to do, if known; the log of its indexer says more.
                             * @example null
                             */
                            way_out: string | null;
                        }[];
                        database: boolean;
                        ready: boolean;
                        /**
                         * @description Null if no replica is set. Requests are served without it, too.
                         * @example null
                         */
                        replica: {
                            /** @description The most that it may be behind the primary, in seconds; null while unknown. */
                            lag_seconds: number | null;
                            /** @description Whether it takes reads; while it does not, the primary does. */
                            serving: boolean;
                        } | null;
                        /**
                         * @description Chains that are configured, or enabled for a merchant, but not followed now.
                         * @example []
                         */
                        waiting_for: ("ETH" | "SOL" | "TRON" | "BTC" | "POLYGON")[];
                    };
                };
            };
        };
    };
    createPaymentRequest: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description A key of your own choice, 1 to 255 visible characters, in quotes or bare. The same key with the same body returns the first reply again and makes no second request, for ever. With another body it is 422 `idempotency_key_reused`. A refused request does not use up its key.
                 * @example "order-1042"
                 */
                "idempotency-key"?: string;
            };
            path: {
                /**
                 * @description Name of an asset in `GET /v1/crypto`.
                 * @example ETH-USDC
                 */
                currency: string;
            };
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "external_id": "acme-1042",
                 *       "amount": "25"
                 *     }
                 */
                "application/json": {
                    /**
                     * @description No more decimals than the asset has.
                     * @example 25
                     */
                    amount: string;
                    /**
                     * @description Seconds until it expires. Omitted: as the operator set it.
                     * @example 3600
                     */
                    expires_in?: number;
                    /**
                     * @description Your own reference: the prefix of your account, `-`, and any text. Each reference has one request, for ever.
                     * @example acme-1042
                     */
                    external_id: string;
                    /**
                     * @description Your own notes: at most 20 strings of at most 500 characters, by names of at most 100.
                     * @example {
                     *       "plan": "gold"
                     *     }
                     */
                    metadata?: {
                        [key: string]: string;
                    };
                    /**
                     * Format: uri
                     * @description https: where the page sends your customer back to.
                     * @example https://shop.example/orders/1042
                     */
                    return_url?: string;
                    /**
                     * @description How much may be missing, at most half: an amount, or a percentage of it. Omitted: as your account has it.
                     * @example 0.5%
                     */
                    tolerance?: string;
                };
            };
        };
        responses: {
            /** @description The request was made. */
            200: {
                content: {
                    /**
                     * @example {
                     *       "code": 200,
                     *       "message": "text",
                     *       "data": {
                     *         "external_id": "acme-1042",
                     *         "currency": "ETH-USDC",
                     *         "address": "0x70997970C51812dc3A010C7d01b50e0d17dc79C8",
                     *         "amount": "25",
                     *         "tolerance": "0",
                     *         "payment_uri": "ethereum:0x1c7D4B196Cb0C7B01d743Fbc6116a902379C7238@11155111/transfer?address=0x70997970C51812dc3A010C7d01b50e0d17dc79C8&uint256=25000000",
                     *         "payment_url": "https://pay.example/pay/Vb1Zq0cWb3XcJ8mF5yTn2sKd7RgHe4La",
                     *         "expires_at": "2026-01-31T12:00:00.000Z",
                     *         "metadata": {
                     *           "plan": "gold"
                     *         },
                     *         "return_url": "https://shop.example/orders/1042"
                     *       }
                     *     }
                     */
                    "application/json": {
                        /** @enum {number} */
                        code: 200;
                        data: components["schemas"]["PaymentRequest"];
                        message: string;
                    };
                };
            };
        };
    };
    getBalances: {
        parameters: {
            query?: {
                /** @description A time in the past, instead of now. A whole quarter of an hour. */
                at?: string;
            };
        };
        requestBody?: never;
        responses: {
            /** @description All balances. */
            200: {
                content: {
                    /**
                     * @example {
                     *       "fee_bps": 50,
                     *       "balances": [
                     *         {
                     *           "chain": "ETH",
                     *           "token": "USDC",
                     *           "gross": "250",
                     *           "fee": "1.25",
                     *           "net": "248.75",
                     *           "held_back": "0",
                     *           "depositCount": 1
                     *         }
                     *       ]
                     *     }
                     */
                    "application/json": {
                        balances: components["schemas"]["Balance"][];
                        /**
                         * @description Fee rate in basis points.
                         * @example 50
                         */
                        fee_bps: number;
                    };
                };
            };
        };
    };
    listAssets: {
        parameters: {
            query?: never;
        };
        requestBody?: never;
        responses: {
            /** @description All assets. */
            200: {
                content: {
                    /**
                     * @example {
                     *       "code": 200,
                     *       "data": [
                     *         {
                     *           "name": "ETH-USDC",
                     *           "display_name": "USD Coin"
                     *         }
                     *       ]
                     *     }
                     */
                    "application/json": {
                        /** @enum {number} */
                        code: 200;
                        data: components["schemas"]["Asset"][];
                    };
                };
            };
        };
    };
    listDeposits: {
        parameters: {
            query?: {
                /** @description Address of one of your users. */
                address?: string;
                /** @description Deposits of at least this. Only with what says the token and its chain. */
                amount_from?: string;
                /** @description Deposits of at most this. Only with what says the token and its chain. */
                amount_to?: string;
                chain?: "ETH" | "SOL" | "TRON" | "BTC" | "POLYGON";
                /** @description Deposits that were first seen at this time or later. */
                created_from?: string;
                /** @description Deposits that were first seen before this time. */
                created_to?: string;
                /** @description `next_cursor` of the page before, with the same filters. */
                cursor?: string;
                /** @description Items per page. */
                limit?: number;
                /** @description Address that paid. */
                sender?: string;
                /**
                 * @description The payout that collected them. `GET /v1/payouts/:id/deposits` has all that a payout is made of.
                 * @example pay_0192f3a4b5c67d8e9fa0b1c2d3e4f508
                 */
                settlement_id?: string;
                status?: ("pending" | "final" | "reorged") | ("pending" | "final" | "reorged")[];
                token?: string;
                /** @description Transaction id. One transaction can hold several deposits. */
                txid?: string;
                /** @example usr_0192f3a4b5c67d8e9fa0b1c2d3e4f506 */
                user_id?: string;
            };
        };
        requestBody?: never;
        responses: {
            /** @description One page of the list. */
            200: {
                content: {
                    /**
                     * @example {
                     *       "deposits": [
                     *         {
                     *           "id": "dep_0192f3a4b5c67d8e9fa0b1c2d3e4f507",
                     *           "chain": "ETH",
                     *           "token": "USDC",
                     *           "amount": "250",
                     *           "sender": "0x70997970C51812dc3A010C7d01b50e0d17dc79C8",
                     *           "txid": "0x5c504ed432cb51138bcf09aa5e8a410dd4a1e204ef84bfed1be16dfba1b22060",
                     *           "status": "final",
                     *           "confirmations": 9,
                     *           "settlement_id": null,
                     *           "created_at": "2026-01-31T12:00:00.000Z",
                     *           "address": "0x70997970C51812dc3A010C7d01b50e0d17dc79C8",
                     *           "output_index": 3,
                     *           "user_id": "usr_0192f3a4b5c67d8e9fa0b1c2d3e4f506",
                     *           "external_ref": "customer-42",
                     *           "metadata": {
                     *             "plan": "gold"
                     *           },
                     *           "settled_before_restore": false
                     *         }
                     *       ],
                     *       "next_cursor": "AQAAAAAAAAAAAAAAAAAAAAKISNVo",
                     *       "has_more": true
                     *     }
                     */
                    "application/json": {
                        deposits: components["schemas"]["Deposit"][];
                        has_more: boolean;
                        /**
                         * @description Cursor of the next page; null on the last one.
                         * @example AQAAAAAAAAAAAAAAAAAAAAKISNVo
                         */
                        next_cursor: string | null;
                    };
                };
            };
        };
    };
    getDeposit: {
        parameters: {
            query?: never;
            path: {
                /** @example dep_0192f3a4b5c67d8e9fa0b1c2d3e4f507 */
                id: string;
            };
        };
        requestBody?: never;
        responses: {
            /** @description The deposit. */
            200: {
                content: {
                    /**
                     * @example {
                     *       "id": "dep_0192f3a4b5c67d8e9fa0b1c2d3e4f507",
                     *       "chain": "ETH",
                     *       "token": "USDC",
                     *       "amount": "250",
                     *       "sender": "0x70997970C51812dc3A010C7d01b50e0d17dc79C8",
                     *       "txid": "0x5c504ed432cb51138bcf09aa5e8a410dd4a1e204ef84bfed1be16dfba1b22060",
                     *       "status": "final",
                     *       "confirmations": 9,
                     *       "settlement_id": null,
                     *       "created_at": "2026-01-31T12:00:00.000Z",
                     *       "address": "0x70997970C51812dc3A010C7d01b50e0d17dc79C8",
                     *       "output_index": 3,
                     *       "user_id": "usr_0192f3a4b5c67d8e9fa0b1c2d3e4f506",
                     *       "external_ref": "customer-42",
                     *       "metadata": {
                     *         "plan": "gold"
                     *       },
                     *       "settled_before_restore": false,
                     *       "finalised_at": "2026-01-31T12:00:00.000Z",
                     *       "settlement": null,
                     *       "held_back": null
                     *     }
                     */
                    "application/json": components["schemas"]["SingleDeposit"];
                };
            };
        };
    };
    listEvents: {
        parameters: {
            query?: {
                /**
                 * @description Id of the last event that you have; `evt_00000000000000000000000000000000` to begin with the first event of all.
                 * @example evt_0192f3a4b5c67d8e9fa0b1c2d3e4f509
                 */
                after?: string;
                /** @description `next_cursor` of the page before, with the same filters. */
                cursor?: string;
                /** @description Items per page. */
                limit?: number;
                type?: ("deposit.pending" | "deposit.confirmed" | "deposit.reorged" | "payout.completed" | "payout.failed" | "payment_request.detected" | "payment_request.partially_paid" | "payment_request.paid" | "payment_request.underpaid" | "payment_request.expired" | "payment_request.cancelled" | "payment_request.reopened" | "webhook_endpoint.disabled") | ("deposit.pending" | "deposit.confirmed" | "deposit.reorged" | "payout.completed" | "payout.failed" | "payment_request.detected" | "payment_request.partially_paid" | "payment_request.paid" | "payment_request.underpaid" | "payment_request.expired" | "payment_request.cancelled" | "payment_request.reopened" | "webhook_endpoint.disabled")[];
            };
        };
        requestBody?: never;
        responses: {
            /** @description One page of the list. */
            200: {
                content: {
                    /**
                     * @example {
                     *       "events": [
                     *         {
                     *           "type": "deposit.pending",
                     *           "id": "evt_0192f3a4b5c67d8e9fa0b1c2d3e4f509",
                     *           "created_at": "2026-01-31T12:00:00.000Z",
                     *           "sequence": 1042,
                     *           "deposit_id": "dep_0192f3a4b5c67d8e9fa0b1c2d3e4f507",
                     *           "user": {
                     *             "id": "usr_0192f3a4b5c67d8e9fa0b1c2d3e4f506",
                     *             "external_ref": "customer-42",
                     *             "metadata": {
                     *               "plan": "gold"
                     *             }
                     *           },
                     *           "chain": "ETH",
                     *           "token": "USDC",
                     *           "amount": "250",
                     *           "txid": "0x5c504ed432cb51138bcf09aa5e8a410dd4a1e204ef84bfed1be16dfba1b22060"
                     *         }
                     *       ],
                     *       "next_cursor": "AQAAAAAAAAAAAAAAAAAAAAKISNVo",
                     *       "has_more": true
                     *     }
                     */
                    "application/json": {
                        events: components["schemas"]["Event"][];
                        has_more: boolean;
                        /**
                         * @description Cursor of the next page; null on the last one.
                         * @example AQAAAAAAAAAAAAAAAAAAAAKISNVo
                         */
                        next_cursor: string | null;
                    };
                };
            };
        };
    };
    getEvent: {
        parameters: {
            query?: never;
            path: {
                /** @example evt_0192f3a4b5c67d8e9fa0b1c2d3e4f509 */
                id: string;
            };
        };
        requestBody?: never;
        responses: {
            /** @description The event, of whatever type. */
            200: {
                content: {
                    /**
                     * @example {
                     *       "type": "deposit.pending",
                     *       "id": "evt_0192f3a4b5c67d8e9fa0b1c2d3e4f509",
                     *       "created_at": "2026-01-31T12:00:00.000Z",
                     *       "sequence": 1042,
                     *       "deposit_id": "dep_0192f3a4b5c67d8e9fa0b1c2d3e4f507",
                     *       "user": {
                     *         "id": "usr_0192f3a4b5c67d8e9fa0b1c2d3e4f506",
                     *         "external_ref": "customer-42",
                     *         "metadata": {
                     *           "plan": "gold"
                     *         }
                     *       },
                     *       "chain": "ETH",
                     *       "token": "USDC",
                     *       "amount": "250",
                     *       "txid": "0x5c504ed432cb51138bcf09aa5e8a410dd4a1e204ef84bfed1be16dfba1b22060"
                     *     }
                     */
                    "application/json": components["schemas"]["Event"];
                };
            };
        };
    };
    listPaymentRequests: {
        parameters: {
            query?: {
                /** @description The address of a request. */
                address?: string;
                /** @description Requests for at least this. Only with what says the token and its chain. */
                amount_from?: string;
                /** @description Requests for at most this. Only with what says the token and its chain. */
                amount_to?: string;
                /** @description Requests that were made at this time or later. */
                created_from?: string;
                /** @description Requests that were made before this time. */
                created_to?: string;
                currency?: "ETH" | "ETH-USDC" | "POL" | "POLYGON-USDC" | "BTC" | "TRX" | "TRON-USDT" | "SOL" | "SOL-USDC" | "SOL-USDT";
                /** @description `next_cursor` of the page before, with the same filters. */
                cursor?: string;
                /** @description Items per page. */
                limit?: number;
                /** @description Requests that were paid at this time or later. */
                paid_from?: string;
                /** @description Requests that were paid before this time. */
                paid_to?: string;
                /** @description Address that paid. */
                sender?: string;
                status?: ("awaiting" | "detected" | "paid" | "expired" | "underpaid" | "cancelled") | ("awaiting" | "detected" | "paid" | "expired" | "underpaid" | "cancelled")[];
                /** @description A transaction that paid for requests. */
                txid?: string;
            };
        };
        requestBody?: never;
        responses: {
            /** @description One page of the list. */
            200: {
                content: {
                    /**
                     * @example {
                     *       "code": 200,
                     *       "data": [
                     *         {
                     *           "external_id": "acme-1042",
                     *           "currency": "ETH-USDC",
                     *           "address": "0x70997970C51812dc3A010C7d01b50e0d17dc79C8",
                     *           "amount": "25",
                     *           "tolerance": "0",
                     *           "expires_at": "2026-01-31T12:00:00.000Z",
                     *           "metadata": {
                     *             "plan": "gold"
                     *           },
                     *           "return_url": "https://shop.example/orders/1042",
                     *           "status": "paid",
                     *           "explanation": "all of it came",
                     *           "amount_received": "25",
                     *           "amount_pending": "0",
                     *           "shortfall": "0",
                     *           "amount_missing": "0",
                     *           "late": false,
                     *           "txid": "0x5c504ed432cb51138bcf09aa5e8a410dd4a1e204ef84bfed1be16dfba1b22060",
                     *           "paid_at": "2026-01-31T12:00:00.000Z",
                     *           "created_at": "2026-01-31T12:00:00.000Z",
                     *           "cancelled_at": null
                     *         }
                     *       ],
                     *       "next_cursor": "AQAAAAAAAAAAAAAAAAAAAAKISNVo",
                     *       "has_more": true
                     *     }
                     */
                    "application/json": {
                        /** @enum {number} */
                        code: 200;
                        data: components["schemas"]["PaymentRequestItem"][];
                        has_more: boolean;
                        /**
                         * @description Cursor of the next page; null on the last one.
                         * @example AQAAAAAAAAAAAAAAAAAAAAKISNVo
                         */
                        next_cursor: string | null;
                    };
                };
            };
        };
    };
    getPaymentRequest: {
        parameters: {
            query?: never;
            path: {
                /** @example acme-1042 */
                external_id: string;
            };
        };
        requestBody?: never;
        responses: {
            /** @description The request. */
            200: {
                content: {
                    /**
                     * @example {
                     *       "code": 200,
                     *       "message": "text",
                     *       "data": {
                     *         "external_id": "acme-1042",
                     *         "currency": "ETH-USDC",
                     *         "address": "0x70997970C51812dc3A010C7d01b50e0d17dc79C8",
                     *         "amount": "25",
                     *         "tolerance": "0",
                     *         "payment_uri": "ethereum:0x1c7D4B196Cb0C7B01d743Fbc6116a902379C7238@11155111/transfer?address=0x70997970C51812dc3A010C7d01b50e0d17dc79C8&uint256=25000000",
                     *         "payment_url": "https://pay.example/pay/Vb1Zq0cWb3XcJ8mF5yTn2sKd7RgHe4La",
                     *         "expires_at": "2026-01-31T12:00:00.000Z",
                     *         "metadata": {
                     *           "plan": "gold"
                     *         },
                     *         "return_url": "https://shop.example/orders/1042",
                     *         "status": "paid",
                     *         "explanation": "all of it came",
                     *         "amount_received": "25",
                     *         "amount_pending": "0",
                     *         "shortfall": "0",
                     *         "amount_missing": "0",
                     *         "late": false,
                     *         "txid": "0x5c504ed432cb51138bcf09aa5e8a410dd4a1e204ef84bfed1be16dfba1b22060",
                     *         "paid_at": "2026-01-31T12:00:00.000Z",
                     *         "created_at": "2026-01-31T12:00:00.000Z",
                     *         "cancelled_at": null,
                     *         "receipts": [
                     *           {
                     *             "txid": "0x5c504ed432cb51138bcf09aa5e8a410dd4a1e204ef84bfed1be16dfba1b22060",
                     *             "output_index": 3,
                     *             "sender": "0x70997970C51812dc3A010C7d01b50e0d17dc79C8",
                     *             "amount": "25",
                     *             "status": "final",
                     *             "confirmations": 12,
                     *             "late": false,
                     *             "settlement_id": null,
                     *             "created_at": "2026-01-31T12:00:00.000Z"
                     *           }
                     *         ]
                     *       }
                     *     }
                     */
                    "application/json": {
                        /** @enum {number} */
                        code: 200;
                        data: components["schemas"]["PaymentRequestState"];
                        message: string;
                    };
                };
            };
        };
    };
    cancelPaymentRequest: {
        parameters: {
            query?: never;
            path: {
                /** @example acme-1042 */
                external_id: string;
            };
        };
        requestBody?: never;
        responses: {
            /** @description It is cancelled. */
            200: {
                content: {
                    /**
                     * @example {
                     *       "code": 200,
                     *       "message": "text",
                     *       "data": {
                     *         "external_id": "acme-1042",
                     *         "currency": "ETH-USDC",
                     *         "address": "0x70997970C51812dc3A010C7d01b50e0d17dc79C8",
                     *         "amount": "25",
                     *         "tolerance": "0",
                     *         "payment_uri": "ethereum:0x1c7D4B196Cb0C7B01d743Fbc6116a902379C7238@11155111/transfer?address=0x70997970C51812dc3A010C7d01b50e0d17dc79C8&uint256=25000000",
                     *         "payment_url": "https://pay.example/pay/Vb1Zq0cWb3XcJ8mF5yTn2sKd7RgHe4La",
                     *         "expires_at": "2026-01-31T12:00:00.000Z",
                     *         "metadata": {
                     *           "plan": "gold"
                     *         },
                     *         "return_url": "https://shop.example/orders/1042",
                     *         "status": "paid",
                     *         "explanation": "all of it came",
                     *         "amount_received": "25",
                     *         "amount_pending": "0",
                     *         "shortfall": "0",
                     *         "amount_missing": "0",
                     *         "late": false,
                     *         "txid": "0x5c504ed432cb51138bcf09aa5e8a410dd4a1e204ef84bfed1be16dfba1b22060",
                     *         "paid_at": "2026-01-31T12:00:00.000Z",
                     *         "created_at": "2026-01-31T12:00:00.000Z",
                     *         "cancelled_at": null,
                     *         "receipts": [
                     *           {
                     *             "txid": "0x5c504ed432cb51138bcf09aa5e8a410dd4a1e204ef84bfed1be16dfba1b22060",
                     *             "output_index": 3,
                     *             "sender": "0x70997970C51812dc3A010C7d01b50e0d17dc79C8",
                     *             "amount": "25",
                     *             "status": "final",
                     *             "confirmations": 12,
                     *             "late": false,
                     *             "settlement_id": null,
                     *             "created_at": "2026-01-31T12:00:00.000Z"
                     *           }
                     *         ]
                     *       }
                     *     }
                     */
                    "application/json": {
                        /** @enum {number} */
                        code: 200;
                        data: components["schemas"]["PaymentRequestState"];
                        message: string;
                    };
                };
            };
        };
    };
    getPaymentRequestQr: {
        parameters: {
            query?: {
                content?: "payment_uri";
            };
            path: {
                /** @example acme-1042 */
                external_id: string;
            };
        };
        requestBody?: never;
        responses: {
            /** @description An SVG document. */
            200: {
                content: {
                    "image/svg+xml": string;
                };
            };
        };
    };
    setPayoutAddress: {
        parameters: {
            query?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "chain": "ETH",
                 *       "address": "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"
                 *     }
                 */
                "application/json": {
                    address: string;
                    /** @description True if an address on Solana that is no point of the curve is meant, such as the vault of a multisignature wallet. */
                    allow_off_curve?: boolean;
                    /**
                     * @example ETH
                     * @enum {string}
                     */
                    chain: "ETH" | "SOL" | "TRON" | "BTC" | "POLYGON";
                };
            };
        };
        responses: {
            /** @description It is registered. */
            200: {
                content: {
                    /**
                     * @example {
                     *       "chain": "ETH",
                     *       "address": "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"
                     *     }
                     */
                    "application/json": components["schemas"]["PayoutAddress"];
                };
            };
        };
    };
    listPayoutAddresses: {
        parameters: {
            query?: never;
        };
        requestBody?: never;
        responses: {
            /** @description All payout addresses. */
            200: {
                content: {
                    /**
                     * @example {
                     *       "payout_addresses": [
                     *         {
                     *           "chain": "ETH",
                     *           "address": "0x70997970C51812dc3A010C7d01b50e0d17dc79C8",
                     *           "whitelisted": true,
                     *           "whitelisted_at": "2026-01-31T12:00:00.000Z",
                     *           "updated_at": "2026-01-31T12:00:00.000Z"
                     *         }
                     *       ]
                     *     }
                     */
                    "application/json": {
                        payout_addresses: components["schemas"]["PayoutAddressState"][];
                    };
                };
            };
        };
    };
    listPayouts: {
        parameters: {
            query?: {
                /** @description Where they are paid to. */
                address?: string;
                /** @description Payouts of a net of at least this. Only with what says the token and its chain. */
                amount_from?: string;
                /** @description Payouts of a net of at most this. Only with what says the token and its chain. */
                amount_to?: string;
                chain?: "ETH" | "SOL" | "TRON" | "BTC" | "POLYGON";
                /** @description Payouts that were made at this time or later. */
                created_from?: string;
                /** @description Payouts that were made before this time. */
                created_to?: string;
                /** @description `next_cursor` of the page before, with the same filters. */
                cursor?: string;
                /** @description Items per page. */
                limit?: number;
                status?: ("pending" | "sweeping" | "swept" | "paying" | "completed" | "failed") | ("pending" | "sweeping" | "swept" | "paying" | "completed" | "failed")[];
                token?: string;
            };
        };
        requestBody?: never;
        responses: {
            /** @description One page of the list. */
            200: {
                content: {
                    /**
                     * @example {
                     *       "payouts": [
                     *         {
                     *           "id": "pay_0192f3a4b5c67d8e9fa0b1c2d3e4f508",
                     *           "status": "completed",
                     *           "chain": "ETH",
                     *           "token": "USDC",
                     *           "gross": "250",
                     *           "fee": "1.25",
                     *           "net": "248.75",
                     *           "txid": "0x5c504ed432cb51138bcf09aa5e8a410dd4a1e204ef84bfed1be16dfba1b22060",
                     *           "error": null,
                     *           "waiting": null,
                     *           "address": "0x70997970C51812dc3A010C7d01b50e0d17dc79C8",
                     *           "completed_at": "2026-01-31T12:00:00.000Z",
                     *           "created_at": "2026-01-31T12:00:00.000Z"
                     *         }
                     *       ],
                     *       "next_cursor": "AQAAAAAAAAAAAAAAAAAAAAKISNVo",
                     *       "has_more": true
                     *     }
                     */
                    "application/json": {
                        has_more: boolean;
                        /**
                         * @description Cursor of the next page; null on the last one.
                         * @example AQAAAAAAAAAAAAAAAAAAAAKISNVo
                         */
                        next_cursor: string | null;
                        payouts: components["schemas"]["PayoutItem"][];
                    };
                };
            };
        };
    };
    createPayout: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description A key of your own choice, 1 to 255 visible characters, in quotes or bare. The same key with the same body returns the first reply again and makes no second payout, for ever. With another body it is 422 `idempotency_key_reused`. A refused request does not use up its key.
                 * @example "payout-2026-01-31"
                 */
                "idempotency-key"?: string;
            };
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "chain": "ETH",
                 *       "token": "USDC"
                 *     }
                 */
                "application/json": {
                    /**
                     * @example ETH
                     * @enum {string}
                     */
                    chain: "ETH" | "SOL" | "TRON" | "BTC" | "POLYGON";
                    /**
                     * @description If true, every address of the balance is swept before anything is paid.
                     * @default false
                     */
                    sweep_first?: boolean;
                    /**
                     * @description Native coin or token of the chain.
                     * @example USDC
                     */
                    token: string;
                };
            };
        };
        responses: {
            /** @description Accepted. */
            202: {
                content: {
                    /**
                     * @example {
                     *       "id": "pay_0192f3a4b5c67d8e9fa0b1c2d3e4f508",
                     *       "status": "pending",
                     *       "gross": "250",
                     *       "fee": "1.25",
                     *       "net": "248.75",
                     *       "txid": null
                     *     }
                     */
                    "application/json": components["schemas"]["NewPayout"];
                };
            };
        };
    };
    getPayout: {
        parameters: {
            query?: never;
            path: {
                /** @example pay_0192f3a4b5c67d8e9fa0b1c2d3e4f508 */
                id: string;
            };
        };
        requestBody?: never;
        responses: {
            /** @description The payout. */
            200: {
                content: {
                    /**
                     * @example {
                     *       "id": "pay_0192f3a4b5c67d8e9fa0b1c2d3e4f508",
                     *       "status": "completed",
                     *       "chain": "ETH",
                     *       "token": "USDC",
                     *       "gross": "250",
                     *       "fee": "1.25",
                     *       "net": "248.75",
                     *       "txid": "0x5c504ed432cb51138bcf09aa5e8a410dd4a1e204ef84bfed1be16dfba1b22060",
                     *       "error": null,
                     *       "waiting": null,
                     *       "address": "0x70997970C51812dc3A010C7d01b50e0d17dc79C8",
                     *       "completed_at": "2026-01-31T12:00:00.000Z"
                     *     }
                     */
                    "application/json": components["schemas"]["Payout"];
                };
            };
        };
    };
    cancelPayout: {
        parameters: {
            query?: never;
            path: {
                /** @example pay_0192f3a4b5c67d8e9fa0b1c2d3e4f508 */
                id: string;
            };
        };
        requestBody?: never;
        responses: {
            /** @description Cancelled: it is failed. */
            200: {
                content: {
                    /**
                     * @example {
                     *       "id": "pay_0192f3a4b5c67d8e9fa0b1c2d3e4f508",
                     *       "status": "completed",
                     *       "chain": "ETH",
                     *       "token": "USDC",
                     *       "gross": "250",
                     *       "fee": "1.25",
                     *       "net": "248.75",
                     *       "txid": "0x5c504ed432cb51138bcf09aa5e8a410dd4a1e204ef84bfed1be16dfba1b22060",
                     *       "error": null,
                     *       "waiting": null,
                     *       "address": "0x70997970C51812dc3A010C7d01b50e0d17dc79C8",
                     *       "completed_at": "2026-01-31T12:00:00.000Z"
                     *     }
                     */
                    "application/json": components["schemas"]["Payout"];
                };
            };
        };
    };
    listPayoutDeposits: {
        parameters: {
            query?: {
                /** @description `next_cursor` of the page before, with the same filters. */
                cursor?: string;
                /** @description Items per page. */
                limit?: number;
            };
            path: {
                /** @example pay_0192f3a4b5c67d8e9fa0b1c2d3e4f508 */
                id: string;
            };
        };
        requestBody?: never;
        responses: {
            /** @description One page of the list. */
            200: {
                content: {
                    /**
                     * @example {
                     *       "deposits": [
                     *         {
                     *           "type": "deposit",
                     *           "amount": "250",
                     *           "reason": null,
                     *           "deposit_id": "dep_0192f3a4b5c67d8e9fa0b1c2d3e4f507",
                     *           "status": "final",
                     *           "txid": "0x5c504ed432cb51138bcf09aa5e8a410dd4a1e204ef84bfed1be16dfba1b22060",
                     *           "output_index": 3,
                     *           "user_id": "usr_0192f3a4b5c67d8e9fa0b1c2d3e4f506",
                     *           "external_ref": "customer-42",
                     *           "external_id": null,
                     *           "created_at": "2026-01-31T12:00:00.000Z"
                     *         }
                     *       ],
                     *       "next_cursor": "AQAAAAAAAAAAAAAAAAAAAAKISNVo",
                     *       "has_more": true
                     *     }
                     */
                    "application/json": {
                        deposits: components["schemas"]["PayoutPart"][];
                        has_more: boolean;
                        /**
                         * @description Cursor of the next page; null on the last one.
                         * @example AQAAAAAAAAAAAAAAAAAAAAKISNVo
                         */
                        next_cursor: string | null;
                    };
                };
            };
        };
    };
    getStatements: {
        parameters: {
            query: {
                chain?: "ETH" | "SOL" | "TRON" | "BTC" | "POLYGON";
                /** @description The beginning of the period. A whole quarter of an hour. */
                from: string;
                /** @description Its end, which is not part of it. A whole quarter of an hour. */
                to: string;
                token?: string;
            };
        };
        requestBody?: never;
        responses: {
            /** @description The statements. */
            200: {
                content: {
                    /**
                     * @example {
                     *       "from": "2026-01-31T12:00:00.000Z",
                     *       "to": "2026-01-31T12:00:00.000Z",
                     *       "statements": [
                     *         {
                     *           "chain": "ETH",
                     *           "token": "USDC",
                     *           "opening_balance": "0",
                     *           "deposits": "250",
                     *           "deposits_lost": "0",
                     *           "payouts": "-99.5",
                     *           "fees": "-0.5",
                     *           "adjustments": "0",
                     *           "closing_balance": "150",
                     *           "held_back": "0",
                     *           "payouts_under_way": "0"
                     *         }
                     *       ]
                     *     }
                     */
                    "application/json": {
                        /**
                         * Format: date-time
                         * @example 2026-01-31T12:00:00.000Z
                         */
                        from: string;
                        statements: components["schemas"]["Statement"][];
                        /**
                         * Format: date-time
                         * @example 2026-01-31T12:00:00.000Z
                         */
                        to: string;
                    };
                };
            };
        };
    };
    listStatementLines: {
        parameters: {
            query: {
                chain?: "ETH" | "SOL" | "TRON" | "BTC" | "POLYGON";
                /** @description `next_cursor` of the page before, with the same filters. */
                cursor?: string;
                /** @description The beginning of the period. A whole quarter of an hour. */
                from: string;
                /** @description Items per page. */
                limit?: number;
                /** @description Its end, which is not part of it. A whole quarter of an hour. */
                to: string;
                token?: string;
            };
        };
        requestBody?: never;
        responses: {
            /** @description One page of the list. */
            200: {
                content: {
                    /**
                     * @example {
                     *       "lines": [
                     *         {
                     *           "created_at": "2026-01-31T12:00:00.000Z",
                     *           "chain": "ETH",
                     *           "token": "USDC",
                     *           "type": "deposit",
                     *           "amount": "250",
                     *           "deposit_id": "dep_0192f3a4b5c67d8e9fa0b1c2d3e4f507",
                     *           "user_id": "usr_0192f3a4b5c67d8e9fa0b1c2d3e4f506",
                     *           "external_ref": "customer-42",
                     *           "external_id": null,
                     *           "payout_id": null,
                     *           "txid": "0x5c504ed432cb51138bcf09aa5e8a410dd4a1e204ef84bfed1be16dfba1b22060"
                     *         }
                     *       ],
                     *       "next_cursor": "AQAAAAAAAAAAAAAAAAAAAAKISNVo",
                     *       "has_more": true
                     *     }
                     */
                    "application/json": {
                        has_more: boolean;
                        lines: components["schemas"]["StatementLine"][];
                        /**
                         * @description Cursor of the next page; null on the last one.
                         * @example AQAAAAAAAAAAAAAAAAAAAAKISNVo
                         */
                        next_cursor: string | null;
                    };
                };
            };
        };
    };
    listUsers: {
        parameters: {
            query?: {
                /** @description `next_cursor` of the page before, with the same filters. */
                cursor?: string;
                /**
                 * @description Your own unique id of the user.
                 * @example customer-42
                 */
                external_ref?: string;
                /** @description Items per page. */
                limit?: number;
            };
        };
        requestBody?: never;
        responses: {
            /** @description One page of the list. */
            200: {
                content: {
                    /**
                     * @example {
                     *       "users": [
                     *         {
                     *           "id": "usr_0192f3a4b5c67d8e9fa0b1c2d3e4f506",
                     *           "external_ref": "customer-42",
                     *           "addresses": [
                     *             {
                     *               "chain": "ETH",
                     *               "address": "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"
                     *             }
                     *           ],
                     *           "metadata": {
                     *             "plan": "gold"
                     *           },
                     *           "created_at": "2026-01-31T12:00:00.000Z"
                     *         }
                     *       ],
                     *       "next_cursor": "AQAAAAAAAAAAAAAAAAAAAAKISNVo",
                     *       "has_more": true
                     *     }
                     */
                    "application/json": {
                        has_more: boolean;
                        /**
                         * @description Cursor of the next page; null on the last one.
                         * @example AQAAAAAAAAAAAAAAAAAAAAKISNVo
                         */
                        next_cursor: string | null;
                        users: components["schemas"]["User"][];
                    };
                };
            };
        };
    };
    createUser: {
        parameters: {
            query?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "external_ref": "customer-42",
                 *       "chains": [
                 *         "ETH",
                 *         "POLYGON"
                 *       ]
                 *     }
                 */
                "application/json": {
                    /** @description Omitted: all chains that are enabled for the account. */
                    chains?: ("ETH" | "SOL" | "TRON" | "BTC" | "POLYGON")[];
                    /**
                     * @description Your own unique id of the user.
                     * @example customer-42
                     */
                    external_ref: string;
                    /**
                     * @description Only for a new user; PATCH changes it.
                     * @example {
                     *       "plan": "gold"
                     *     }
                     */
                    metadata?: {
                        [key: string]: string;
                    };
                };
            };
        };
        responses: {
            /** @description The user existed already. */
            200: {
                content: {
                    /**
                     * @example {
                     *       "id": "usr_0192f3a4b5c67d8e9fa0b1c2d3e4f506",
                     *       "external_ref": "customer-42",
                     *       "addresses": [
                     *         {
                     *           "chain": "ETH",
                     *           "address": "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"
                     *         }
                     *       ],
                     *       "metadata": {
                     *         "plan": "gold"
                     *       }
                     *     }
                     */
                    "application/json": components["schemas"]["NewUser"];
                };
            };
            /** @description Created. */
            201: {
                content: {
                    /**
                     * @example {
                     *       "id": "usr_0192f3a4b5c67d8e9fa0b1c2d3e4f506",
                     *       "external_ref": "customer-42",
                     *       "addresses": [
                     *         {
                     *           "chain": "ETH",
                     *           "address": "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"
                     *         }
                     *       ],
                     *       "metadata": {
                     *         "plan": "gold"
                     *       }
                     *     }
                     */
                    "application/json": components["schemas"]["NewUser"];
                };
            };
        };
    };
    getUser: {
        parameters: {
            query?: never;
            path: {
                /** @example usr_0192f3a4b5c67d8e9fa0b1c2d3e4f506 */
                id: string;
            };
        };
        requestBody?: never;
        responses: {
            /** @description The user. */
            200: {
                content: {
                    /**
                     * @example {
                     *       "id": "usr_0192f3a4b5c67d8e9fa0b1c2d3e4f506",
                     *       "external_ref": "customer-42",
                     *       "addresses": [
                     *         {
                     *           "chain": "ETH",
                     *           "address": "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"
                     *         }
                     *       ],
                     *       "metadata": {
                     *         "plan": "gold"
                     *       },
                     *       "created_at": "2026-01-31T12:00:00.000Z"
                     *     }
                     */
                    "application/json": components["schemas"]["User"];
                };
            };
        };
    };
    updateUser: {
        parameters: {
            query?: never;
            path: {
                /** @example usr_0192f3a4b5c67d8e9fa0b1c2d3e4f506 */
                id: string;
            };
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "metadata": {
                 *         "plan": "gold"
                 *       }
                 *     }
                 */
                "application/json": {
                    /**
                     * @description Your own notes: at most 20 strings of at most 500 characters, by names of at most 100.
                     * @example {
                     *       "plan": "gold"
                     *     }
                     */
                    metadata?: {
                        [key: string]: string;
                    };
                };
            };
        };
        responses: {
            /** @description The user as it is now. */
            200: {
                content: {
                    /**
                     * @example {
                     *       "id": "usr_0192f3a4b5c67d8e9fa0b1c2d3e4f506",
                     *       "external_ref": "customer-42",
                     *       "addresses": [
                     *         {
                     *           "chain": "ETH",
                     *           "address": "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"
                     *         }
                     *       ],
                     *       "metadata": {
                     *         "plan": "gold"
                     *       },
                     *       "created_at": "2026-01-31T12:00:00.000Z"
                     *     }
                     */
                    "application/json": components["schemas"]["User"];
                };
            };
        };
    };
    addAddresses: {
        parameters: {
            query?: never;
            path: {
                /** @example usr_0192f3a4b5c67d8e9fa0b1c2d3e4f506 */
                id: string;
            };
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "chains": [
                 *         "POLYGON"
                 *       ]
                 *     }
                 */
                "application/json": {
                    chains: ("ETH" | "SOL" | "TRON" | "BTC" | "POLYGON")[];
                };
            };
        };
        responses: {
            /** @description The user had all of them already. */
            200: {
                content: {
                    /**
                     * @example {
                     *       "id": "usr_0192f3a4b5c67d8e9fa0b1c2d3e4f506",
                     *       "addresses": [
                     *         {
                     *           "chain": "ETH",
                     *           "address": "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"
                     *         }
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["UserAddresses"];
                };
            };
            /** @description An address was added. All addresses of the user. */
            201: {
                content: {
                    /**
                     * @example {
                     *       "id": "usr_0192f3a4b5c67d8e9fa0b1c2d3e4f506",
                     *       "addresses": [
                     *         {
                     *           "chain": "ETH",
                     *           "address": "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"
                     *         }
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["UserAddresses"];
                };
            };
        };
    };
    listWebhookEndpoints: {
        parameters: {
            query?: never;
        };
        requestBody?: never;
        responses: {
            /** @description All endpoints. */
            200: {
                content: {
                    /**
                     * @example {
                     *       "webhook_endpoints": [
                     *         {
                     *           "id": "whe_0192f3a4b5c67d8e9fa0b1c2d3e4f50a",
                     *           "url": "https://example.com/webhooks/sluice",
                     *           "event_types": [
                     *             "deposit.pending",
                     *             "deposit.confirmed",
                     *             "payout.completed",
                     *             "payout.failed"
                     *           ],
                     *           "enabled": true,
                     *           "disabled_reason": null,
                     *           "failing_since": null,
                     *           "created_at": "2026-01-31T12:00:00.000Z"
                     *         }
                     *       ]
                     *     }
                     */
                    "application/json": {
                        webhook_endpoints: components["schemas"]["WebhookEndpoint"][];
                    };
                };
            };
        };
    };
    createWebhookEndpoint: {
        parameters: {
            query?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "url": "https://example.com/webhooks/sluice"
                 *     }
                 */
                "application/json": {
                    /** @description If omitted at creation: the four types other than `deposit.reorged`. */
                    event_types?: ("deposit.pending" | "deposit.confirmed" | "deposit.reorged" | "payout.completed" | "payout.failed" | "payment_request.detected" | "payment_request.partially_paid" | "payment_request.paid" | "payment_request.underpaid" | "payment_request.expired" | "payment_request.cancelled" | "payment_request.reopened" | "webhook_endpoint.disabled")[];
                    /** Format: uri */
                    url: string;
                };
            };
        };
        responses: {
            /** @description The endpoint was made. Its secret is shown here alone. */
            201: {
                content: {
                    /**
                     * @example {
                     *       "id": "whe_0192f3a4b5c67d8e9fa0b1c2d3e4f50a",
                     *       "url": "https://example.com/webhooks/sluice",
                     *       "event_types": [
                     *         "deposit.pending",
                     *         "deposit.confirmed",
                     *         "payout.completed",
                     *         "payout.failed"
                     *       ],
                     *       "enabled": true,
                     *       "disabled_reason": null,
                     *       "failing_since": null,
                     *       "created_at": "2026-01-31T12:00:00.000Z",
                     *       "secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
                     *     }
                     */
                    "application/json": components["schemas"]["WebhookEndpointWithSecret"];
                };
            };
        };
    };
    getWebhookEndpoint: {
        parameters: {
            query?: never;
            path: {
                /** @example whe_0192f3a4b5c67d8e9fa0b1c2d3e4f50a */
                id: string;
            };
        };
        requestBody?: never;
        responses: {
            /** @description The endpoint. */
            200: {
                content: {
                    /**
                     * @example {
                     *       "id": "whe_0192f3a4b5c67d8e9fa0b1c2d3e4f50a",
                     *       "url": "https://example.com/webhooks/sluice",
                     *       "event_types": [
                     *         "deposit.pending",
                     *         "deposit.confirmed",
                     *         "payout.completed",
                     *         "payout.failed"
                     *       ],
                     *       "enabled": true,
                     *       "disabled_reason": null,
                     *       "failing_since": null,
                     *       "created_at": "2026-01-31T12:00:00.000Z"
                     *     }
                     */
                    "application/json": components["schemas"]["WebhookEndpoint"];
                };
            };
        };
    };
    deleteWebhookEndpoint: {
        parameters: {
            query?: never;
            path: {
                /** @example whe_0192f3a4b5c67d8e9fa0b1c2d3e4f50a */
                id: string;
            };
        };
        requestBody?: never;
        responses: {
            /** @description Deleted. */
            204: {
                content?: never;
            };
        };
    };
    updateWebhookEndpoint: {
        parameters: {
            query?: never;
            path: {
                /** @example whe_0192f3a4b5c67d8e9fa0b1c2d3e4f50a */
                id: string;
            };
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "enabled": true
                 *     }
                 */
                "application/json": {
                    enabled?: boolean;
                    /** @description If omitted at creation: the four types other than `deposit.reorged`. */
                    event_types?: ("deposit.pending" | "deposit.confirmed" | "deposit.reorged" | "payout.completed" | "payout.failed" | "payment_request.detected" | "payment_request.partially_paid" | "payment_request.paid" | "payment_request.underpaid" | "payment_request.expired" | "payment_request.cancelled" | "payment_request.reopened" | "webhook_endpoint.disabled")[];
                    /** Format: uri */
                    url?: string;
                };
            };
        };
        responses: {
            /** @description The endpoint as it is now. */
            200: {
                content: {
                    /**
                     * @example {
                     *       "id": "whe_0192f3a4b5c67d8e9fa0b1c2d3e4f50a",
                     *       "url": "https://example.com/webhooks/sluice",
                     *       "event_types": [
                     *         "deposit.pending",
                     *         "deposit.confirmed",
                     *         "payout.completed",
                     *         "payout.failed"
                     *       ],
                     *       "enabled": true,
                     *       "disabled_reason": null,
                     *       "failing_since": null,
                     *       "created_at": "2026-01-31T12:00:00.000Z"
                     *     }
                     */
                    "application/json": components["schemas"]["WebhookEndpoint"];
                };
            };
        };
    };
    listWebhookDeliveries: {
        parameters: {
            query?: {
                /** @description Deliveries that were made at this time or later. */
                created_from?: string;
                /** @description Deliveries that were made before this time. */
                created_to?: string;
                /** @description `next_cursor` of the page before, with the same filters. */
                cursor?: string;
                /** @description Items per page. */
                limit?: number;
                status?: ("pending" | "delivered" | "failed") | ("pending" | "delivered" | "failed")[];
            };
            path: {
                /** @example whe_0192f3a4b5c67d8e9fa0b1c2d3e4f50a */
                id: string;
            };
        };
        requestBody?: never;
        responses: {
            /** @description One page of the list. */
            200: {
                content: {
                    /**
                     * @example {
                     *       "deliveries": [
                     *         {
                     *           "id": "dlv_0192f3a4b5c67d8e9fa0b1c2d3e4f50b",
                     *           "event_id": "evt_0192f3a4b5c67d8e9fa0b1c2d3e4f509",
                     *           "event_type": "deposit.confirmed",
                     *           "status": "delivered",
                     *           "created_at": "2026-01-31T12:00:00.000Z",
                     *           "next_attempt_at": null,
                     *           "finished_at": "2026-01-31T12:00:00.000Z",
                     *           "attempts": [
                     *             {
                     *               "attempted_at": "2026-01-31T12:00:00.000Z",
                     *               "duration_ms": 42,
                     *               "response_status": 204,
                     *               "error": null
                     *             }
                     *           ]
                     *         }
                     *       ],
                     *       "next_cursor": "AQAAAAAAAAAAAAAAAAAAAAKISNVo",
                     *       "has_more": true
                     *     }
                     */
                    "application/json": {
                        deliveries: components["schemas"]["Delivery"][];
                        has_more: boolean;
                        /**
                         * @description Cursor of the next page; null on the last one.
                         * @example AQAAAAAAAAAAAAAAAAAAAAKISNVo
                         */
                        next_cursor: string | null;
                    };
                };
            };
        };
    };
    redeliverWebhook: {
        parameters: {
            query?: never;
            path: {
                /** @example dlv_0192f3a4b5c67d8e9fa0b1c2d3e4f50b */
                delivery_id: string;
                /** @example whe_0192f3a4b5c67d8e9fa0b1c2d3e4f50a */
                id: string;
            };
        };
        requestBody?: never;
        responses: {
            /** @description It is sent again. */
            200: {
                content: {
                    /**
                     * @example {
                     *       "id": "dlv_0192f3a4b5c67d8e9fa0b1c2d3e4f50b",
                     *       "event_id": "evt_0192f3a4b5c67d8e9fa0b1c2d3e4f509",
                     *       "event_type": "deposit.confirmed",
                     *       "status": "delivered",
                     *       "created_at": "2026-01-31T12:00:00.000Z",
                     *       "next_attempt_at": null,
                     *       "finished_at": "2026-01-31T12:00:00.000Z",
                     *       "attempts": [
                     *         {
                     *           "attempted_at": "2026-01-31T12:00:00.000Z",
                     *           "duration_ms": 42,
                     *           "response_status": 204,
                     *           "error": null
                     *         }
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Delivery"];
                };
            };
        };
    };
    redeliverFailedWebhooks: {
        parameters: {
            query?: never;
            path: {
                /** @example whe_0192f3a4b5c67d8e9fa0b1c2d3e4f50a */
                id: string;
            };
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "since": "2026-01-31T00:00:00.000Z"
                 *     }
                 */
                "application/json": {
                    /**
                     * Format: date-time
                     * @description Events that happened at or after this time.
                     */
                    since: string;
                };
            };
        };
        responses: {
            /** @description How many are sent again. */
            200: {
                content: {
                    /**
                     * @example {
                     *       "count": 3
                     *     }
                     */
                    "application/json": {
                        /** @example 3 */
                        count: number;
                    };
                };
            };
        };
    };
    rotateWebhookSecret: {
        parameters: {
            query?: never;
            path: {
                /** @example whe_0192f3a4b5c67d8e9fa0b1c2d3e4f50a */
                id: string;
            };
        };
        requestBody?: never;
        responses: {
            /** @description The new secret, which is shown here alone. */
            200: {
                content: {
                    /**
                     * @example {
                     *       "id": "whe_0192f3a4b5c67d8e9fa0b1c2d3e4f50a",
                     *       "url": "https://example.com/webhooks/sluice",
                     *       "event_types": [
                     *         "deposit.pending",
                     *         "deposit.confirmed",
                     *         "payout.completed",
                     *         "payout.failed"
                     *       ],
                     *       "enabled": true,
                     *       "disabled_reason": null,
                     *       "failing_since": null,
                     *       "created_at": "2026-01-31T12:00:00.000Z",
                     *       "secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
                     *     }
                     */
                    "application/json": components["schemas"]["WebhookEndpointWithSecret"];
                };
            };
        };
    };
    testWebhookEndpoint: {
        parameters: {
            query?: never;
            path: {
                /** @example whe_0192f3a4b5c67d8e9fa0b1c2d3e4f50a */
                id: string;
            };
        };
        requestBody?: {
            content: {
                /**
                 * @example {
                 *       "type": "payout.completed"
                 *     }
                 */
                "application/json": {
                    /**
                     * @description If omitted, `deposit.confirmed`.
                     * @enum {string}
                     */
                    type?: "deposit.pending" | "deposit.confirmed" | "deposit.reorged" | "payout.completed" | "payout.failed" | "payment_request.detected" | "payment_request.partially_paid" | "payment_request.paid" | "payment_request.underpaid" | "payment_request.expired" | "payment_request.cancelled" | "payment_request.reopened" | "webhook_endpoint.disabled";
                };
            };
        };
        responses: {
            /** @description The example is on its way. */
            201: {
                content: {
                    /**
                     * @example {
                     *       "id": "dlv_0192f3a4b5c67d8e9fa0b1c2d3e4f50b",
                     *       "event_id": "evt_0192f3a4b5c67d8e9fa0b1c2d3e4f509",
                     *       "event_type": "deposit.confirmed",
                     *       "status": "delivered",
                     *       "created_at": "2026-01-31T12:00:00.000Z",
                     *       "next_attempt_at": null,
                     *       "finished_at": "2026-01-31T12:00:00.000Z",
                     *       "attempts": [
                     *         {
                     *           "attempted_at": "2026-01-31T12:00:00.000Z",
                     *           "duration_ms": 42,
                     *           "response_status": 204,
                     *           "error": null
                     *         }
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Delivery"];
                };
            };
        };
    };
}

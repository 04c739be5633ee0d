"""The mutations: faults of rules, SQL and scopes, each with the tests that must catch it."""

from tests.mutants.mutation import Mutation

MUTATIONS = (
    # --- tenancy ---------------------------------------------------------------------------------------------------
    Mutation(
        "an order of another store is readable",
        "AS doc, version FROM orders WHERE store_id = $1 AND id = $2",
        "AS doc, version FROM orders WHERE $1::bigint > 0 AND id = $2",
        "tests/contract/test_endpoints.py::test_an_id_of_another_store_is_indistinguishable_from_an_unknown_id",
    ),
    Mutation(
        "a list contains the rows of another store",
        'conditions = ["store_id = $1"]',
        'conditions = ["$1::bigint > 0"]',
        "tests/orders/test_list_orders.py::test_orders_of_another_store_are_not_listed",
    ),
    # --- scopes ----------------------------------------------------------------------------------------------------
    Mutation(
        "an endpoint serves a token without its scope",
        "if not caller.may(endpoint.scope):",
        "if not caller.scopes:",
        "tests/contract/test_scopes.py::test_a_single_scope_shows_nothing_of_the_others",
    ),
    Mutation(
        "a field is written without its scope",
        "check_field_scopes(members, type_, call.may)",
        "check_field_scopes(members, type_, bool)",
        "tests/orders/test_customer_scope.py::test_a_customer_id_needs_the_customer_scope",
    ),
    Mutation(
        "an app receives events without their scope",
        'return (kind.scope if kind else "") in _expanded(',
        'return kind is not None or "" in _expanded(',
        "tests/webhooks/delivery/test_router.py::test_an_app_receives_only_events_that_its_current_scopes_allow",
    ),
    # --- money -----------------------------------------------------------------------------------------------------
    Mutation(
        "a percentage of a price is rounded down",
        "int(percent * 10_000) + _HUNDRED_PERCENT) //",
        "int(percent * 10_000)) //",
        "tests/orders/test_amounts.py::test_a_percentage_is_rounded_half_up_in_the_currency",
    ),
    Mutation(
        "several refunds exceed the payment",
        "left = order.amount_paid - order.amount_refunded",
        "left = order.amount_paid",
        "tests/orders/test_refunds.py::test_a_refund_is_limited_by_what_is_paid_and_not_refunded",
    ),
    Mutation(
        "a tax that the prices include is added again",
        "+ self.shipping_total\n        return total if self.prices_include_tax else total + self.tax_total",
        "+ self.shipping_total\n        return total + self.tax_total",
        "tests/orders/test_amounts.py::test_taxes_that_prices_include_are_not_added",
    ),
    # --- orders and stock ------------------------------------------------------------------------------------------
    Mutation(
        "a cancelled order is opened again",
        '"cancelled": (),',
        '"cancelled": ("pending",),',
        "tests/orders/test_guide.py::test_the_status_tables_match_the_rules",
    ),
    Mutation(
        "an order reserves units that another one reserved meanwhile",
        "v.reserved - v.other_reserved + w.units - w.others)",
        "v.reserved - v.other_reserved)",
        "tests/orders/test_order_races.py::test_a_unit_that_is_sold_while_an_order_waits_is_not_sold_again",
    ),
    Mutation(
        "a cancelled order keeps its stock reserved",
        'HOLDING: frozenset[Status] = frozenset({"pending", "processing", "on_hold"})',
        'HOLDING: frozenset[Status] = frozenset({"pending", "processing", "on_hold", "cancelled"})',
        "tests/orders/test_order_status.py::test_a_cancelled_order_releases_its_stock",
    ),
    Mutation(
        "in_stock ignores variants that allow backorders",
        "LIMIT 1) IS TRUE",
        "AND NOT v.allow_backorder LIMIT 1) IS TRUE",
        "tests/orders/test_place_orders.py",
    ),
    Mutation(
        "a change of a product's stock leaves no ledger row",
        "ORDER BY t.variant_index;",
        "ORDER BY t.variant_index LIMIT 0;",
        "tests/products/test_change_products.py",
    ),
    Mutation(
        "an order takes units of a variant that is not tracked",
        "IF i_kind[n] IN ('release', 'commit', 'restock') AND NOT tracked[at] THEN",
        "IF i_kind[n] = 'restock' AND NOT tracked[at] THEN",
        "tests/orders/test_untracked_stock.py::test_a_reservation_ends_without_a_change_on_hand_if_tracking_ended",
    ),
    Mutation(
        "a suspected duplicate that was cancelled meanwhile is kept",
        "isinstance(s.other, OrderState) or s.other.id in live]",
        "isinstance(s.other, OrderState) or s.other.id in live | stored]",
        "tests/orders/test_duplicates.py",
    ),
    # --- payments, shipments, holds and historical orders ------------------------------------------------------------
    Mutation(
        "a refund for goodwill becomes a debt of the customer",
        "return self.kept - self.paid + min(self.refunded, max(0, self.paid - self.kept))",
        "return self.kept - self.paid + self.refunded",
        "tests/orders/test_rules.py::test_the_balance_is_what_the_contract_says",
    ),
    Mutation(
        "a transaction is recorded twice on an order",
        "        if each.external_id == external_id:",
        "        if each.id == external_id:",
        "tests/orders/test_payments.py::test_an_external_id_is_recorded_once_on_an_order",
    ),
    Mutation(
        "units that were removed and added again are refunded twice",
        "kept = max(known.quantity + fell, min(known.quantity, refunded_units(order, line.id)))",
        "kept = known.quantity",
        "tests/orders/test_payments.py::test_units_that_are_added_again_are_not_refunded_twice",
    ),
    Mutation(
        "a shipment that has arrived is voided",
        "    _check_voidable(order, voided)\n    for units",
        "    for units",
        "tests/orders/test_fulfillment_locations.py::test_a_shipment_that_is_delivered_or_returned_cannot_be_voided",
    ),
    Mutation(
        "an order expires although its payment has begun",
        'self.status != "pending" or self.payment_status not in UNPAID:',
        'self.status != "pending":',
        "tests/orders/test_holds.py::test_a_hold_ends_when_the_order_is_paid_or_moves_on",
    ),
    Mutation(
        "a hold begins in the past",
        "if not moment < until <= moment + timedelta(seconds=LONGEST_HOLD_S):",
        "if until > moment + timedelta(seconds=LONGEST_HOLD_S):",
        "tests/orders/test_holds.py::test_an_invalid_hold_is_refused_and_nothing_is_written",
    ),
    Mutation(
        "a historical order reserves stock",
        "            reserved=line.allocated,\n",
        "            reserved=line.quantity,\n",
        "tests/orders/test_historical_orders.py::test_stock_does_not_change_in_later_steps",
    ),
    Mutation(
        "two orders of a batch have the same external id",
        "            self.external_ids[order.external_id] = order.id",
        "            self.external_ids[str(order.id)] = order.id",
        "tests/orders/test_historical_orders.py::test_an_external_id_that_exists_is_refused",
    ),
    Mutation(
        "a new order gets the number of a historical one",
        "DO UPDATE SET last = greatest(n.last, $2::bigint) + $3::integer",
        "DO UPDATE SET last = greatest(n.last, $2::bigint * 0) + $3::integer",
        "tests/orders/test_historical_orders.py::test_later_orders_have_higher_numbers",
    ),
    Mutation(
        "a line item ignores that its variant is not taxed",
        "taxable=product.taxable if variant.taxable is None else variant.taxable,",
        "taxable=product.taxable,",
        "tests/orders/test_copied_properties.py::test_a_variant_says_what_differs_from_its_product",
    ),
    # --- the kit ---------------------------------------------------------------------------------------------------
    Mutation(
        "an idempotency key replays the response of another request",
        "if stored.fingerprint != fingerprint:",
        "if not stored.fingerprint:",
        "tests/rest/test_writes.py::test_a_key_that_was_used_for_another_request_is_refused",
    ),
    Mutation(
        "a failed request burns its idempotency key",
        "before = await idempotency.claim(db,",
        "before = await idempotency.claim(self._database.autocommit,",
        "tests/rest/test_writes.py::test_a_failed_request_does_not_burn_its_key",
    ),
    Mutation(
        "a cursor continues another list",
        "if cursor.of_list not in (None, of_list):",
        'if cursor.of_list == "":',
        "tests/rest/test_lists.py::test_a_cursor_of_another_list_is_refused",
    ),
    Mutation(
        "a change of an old version is accepted",
        "if type(expected) is int and expected != current:",
        "if type(expected) is int and expected > current:",
        "tests/rest/test_writes.py::test_a_patch_that_repeats_an_old_version_conflicts",
    ),
    Mutation(
        "a rate limit grants a fraction of a token as a whole one",
        "- least(wanted, greatest(0, floor(",
        "- least(wanted, greatest(0, ceil(",
        "tests/rest/test_rate_limits.py::test_only_whole_tokens_are_granted",
    ),
    Mutation(
        "requests are admitted while others wait for the database",
        "if self._database.saturated and not self._database.fenced:",
        "if self._database.saturated and self._busy > self._max_in_flight:",
        "tests/rest/test_shedding.py::test_requests_are_shed_while_others_wait_too_long_for_a_connection",
    ),
    # --- events and webhooks ---------------------------------------------------------------------------------------
    Mutation(
        "a deleted variant is also an event of its product",
        "if changes.keys() - _DERIVED:",
        "if changes:",
        "tests/products/test_change_products.py::test_variants_are_added_and_deleted",
    ),
    Mutation(
        "a signature does not cover the time",
        "% (event_id.encode(), timestamp, body)",
        "% (event_id.encode(), 0, body)",
        "tests/webhooks/http/test_signing.py::test_the_base_string_joins_id_timestamp_and_body",
    ),
    Mutation(
        "the old secret does not sign during a rotation",
        "encrypted = [subscription.sealed_secret, subscription.sealed_old_secret]",
        "encrypted = [subscription.sealed_secret]",
        "tests/webhooks/delivery/test_router.py::test_both_secrets_sign_during_a_rotation",
    ),
    Mutation(
        "the circuit breaker opens one failure too late",
        "if health.failures < config.breaker_failures and",
        "if health.failures <= config.breaker_failures and",
        "tests/webhooks/delivery/test_retry_policy.py::test_five_consecutive_failures_open_the_breaker_and_report_it_once",
    ),
    Mutation(
        "a filter needs only one of its conditions",
        "return all(condition.meets(document)",
        "return any(condition.meets(document)",
        "tests/webhooks/api/test_filters.py::test_a_document_that_misses_a_condition_does_not_match",
    ),
    Mutation(
        "an event overtakes an earlier one of its resource",
        "\n               CASE WHEN d.ordered_by IS NOT NULL AND (d.blocked OR (",
        "\n               CASE WHEN d.ordered_by IS NOT NULL AND (d.blocked AND (",
        "tests/webhooks/delivery/test_lease_on_routing.py::test_with_resource_ordering_a_delivery_waits_for_the_earlier_ones_of_its_resource",
    ),
    Mutation(
        "the log shows the beginning of a secret where a response is cut",
        "return text[:-length] + HIDDEN",
        "return text",
        "tests/webhooks/test_hidden_values.py::test_a_receiver_that_echoes_puts_no_secret_into_a_test_result",
    ),
    # --- imports and exports ---------------------------------------------------------------------------------------
    Mutation(
        "a dry run of an import writes",
        "write=not run.task.options.dry_run",
        "write=True",
        "tests/imports/test_options.py::test_a_dry_run_reports_changes_and_writes_nothing",
    ),
    Mutation(
        "an app reads rows of another app's import",
        "with_rows=job.app_id == app_id",
        "with_rows=True",
        "tests/imports/test_visibility.py::test_another_app_gets_the_summary_without_rows",
    ),
    Mutation(
        "an exported cell is a formula",
        "return quoted(str(value))",
        "return str(value)",
        "tests/portal/test_exports.py::test_lists_are_exported_with_their_filters_and_without_formulas",
    ),
    # --- customers -------------------------------------------------------------------------------------------------
    Mutation(
        "an app sees the metadata of a second other app",
        '_any_section.sub(b"", text)',
        '_any_section.sub(b"", text, count=1)',
        "tests/customers/test_metadata_property.py::test_each_app_sees_its_own_and_the_shared_keys_after_any_merges",
    ),
    Mutation(
        "an erasure misses a former email address",
        "[fields_of(head), *_members_in(past_events, list(found))]",
        "[fields_of(head)]",
        "tests/customers/test_erasure.py::test_no_table_contains_a_person_after_an_erasure",
    ),
    # --- people ----------------------------------------------------------------------------------------------------
    Mutation(
        "a form token works in another session",
        'nonce + session.encode("utf-8", "surrogatepass")',
        "nonce",
        "tests/portal/test_csrf.py::test_a_forged_form_is_refused_and_changes_nothing",
    ),
    Mutation(
        "an idle session stays open",
        "AND s.seen_at > now() - make_interval(secs => $2)\n          AND a.status",
        "AND s.seen_at > now() - 24 * make_interval(secs => $2)\n          AND a.status",
        "tests/portal/test_sign_in.py::test_a_session_ends_when_it_is_idle_or_expired",
    ),
    Mutation(
        "an expired token is accepted",
        "if found.seconds_left <= 0:",
        "if found.seconds_left <= -60:",
        "tests/access/test_admission.py::test_an_expired_token_is_refused_the_moment_it_expires",
    ),
    Mutation(
        "a link stays valid after it was used",
        "DELETE FROM account_links WHERE token_hash = ANY ($1::bytea[]) AND expires_at > now()",
        "UPDATE account_links SET email = email WHERE token_hash = ANY ($1::bytea[]) AND expires_at > now()",
        "tests/accounts/test_registration.py::test_a_link_expires_when_it_is_used",
    ),
    Mutation(
        "an invitation is accepted by another account",
        "if invitation.email != email:",
        "if not email:",
        "tests/portal/test_teams.py::test_only_the_invited_account_can_accept",
    ),
    Mutation(
        "an audit entry does not depend on the one before it",
        "hashlib.sha256(previous + msgspec.json.encode(fields))",
        "hashlib.sha256(msgspec.json.encode(fields))",
        "tests/access/test_audit.py::test_an_entry_that_was_altered_with_its_seal_is_found_by_the_next_one",
    ),
    # --- the SDK ---------------------------------------------------------------------------------------------------
    Mutation(
        "the SDK retries a permanent error",
        "self._failures > self._policy.retries or not _is_transient(outcome):",
        "self._failures > self._policy.retries:",
        "tests/client/test_retries.py::test_a_permanent_error_is_not_retried",
    ),
)

/** Follows the events of a subscription by long polling, without a URL of your own. */
import { Resource } from "./connection.js";
import { UnexpectedAnswer } from "./errors.js";
import type { Delivery } from "./generated/models.js";
import { begun, type CallOptions } from "./options.js";
import { segment } from "./requests.js";
import type { Event } from "./webhooks.js";

const PAGE = 100;

export interface FeedOptions extends CallOptions {
  /** The `sequence` of the last event that you have handled; 0 by default, which starts with the oldest event. */
  after?: number | undefined;
  /** How long the service waits for an event, in seconds; with 0 the feed ends when there are no more events. */
  wait?: number | undefined;
}

/** The deliveries of subscriptions. */
export class Feed extends Resource {
  /**
   * The events of a subscription in order, including future ones; the iteration does not end.
   *
   * Save `event.sequence` after you have handled an event, and pass it as `after` next time. To stop, leave the loop
   * or abort the `signal`.
   */
  async *feed(webhookId: number, options: FeedOptions = {}): AsyncGenerator<Event, void> {
    const { after = 0, wait = 20, ...rest } = begun(options);
    const fixed = { ...rest, wait: wait || undefined, limit: PAGE, include: "payload" };
    for (let last = after; ; ) {
      const page = await this.connection.pages<Delivery>(`/webhooks/${segment(webhookId)}/deliveries`, { ...fixed, ...{ after: last } }).page();
      for (const delivery of page) {
        if (delivery.sequence <= last) {
          throw new UnexpectedAnswer(`the feed returned sequence ${delivery.sequence} after ${last}`, 200, "");
        }
        last = delivery.sequence;
        yield eventOf(delivery);
      }
      if (!page.data.length && !wait) return;
    }
  }
}

/** The event of a delivery; without `data` if the event has been deleted. */
function eventOf(delivery: Delivery): Event {
  if (delivery.payload) return delivery.payload as Event;
  const { event_id: id, event_type: type, sequence, created_at: timestamp, resource } = delivery;
  return { id, type, sequence, timestamp, resource, api_version: "v3", changes: {} } as unknown as Event;
}

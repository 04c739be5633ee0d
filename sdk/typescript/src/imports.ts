/** Waits for an import to end and reads its report, in addition to the generated calls. */
import { Resource } from "./connection.js";
import { type Fault, UnexpectedAnswer, WaitedTooLong } from "./errors.js";
import type { Import } from "./generated/models.js";
import { begun, type CallOptions } from "./options.js";
import { excerpt, jsonObject } from "./problems.js";
import { segment } from "./requests.js";
import { sleep } from "./sleep.js";
import type { Open } from "./types.js";

/** The result of one row of a file. */
export interface RowReport {
  row: number;
  key: Record<string, unknown>;
  status: Open<"created" | "updated" | "unchanged" | "failed">;
  id: number | null;
  errors: Fault[];
  changes?: Record<string, unknown>;
}

type Job = string | { readonly id: string };

/** Imports of one kind of resource. */
export abstract class ImportJobs extends Resource {
  protected abstract readonly path: string;

  /** The job once it has ended, successfully or not; throws `WaitedTooLong` if that takes longer than `withinMs`. */
  async wait(job: Job, options: CallOptions & { withinMs?: number | undefined } = {}): Promise<Import> {
    const { withinMs = Infinity, ...rest } = begun(options);
    const deadline = Math.min(performance.now() + withinMs, rest.endsAt ?? Infinity);
    for (let pauseMs = 100; ; pauseMs = Math.min(pauseMs * 1.5, 2000)) {
      const now = await this.connection.one<Import>("GET", this.#address(job), { options: rest });
      if (now.finished_at !== null) return now;
      if (performance.now() + pauseMs > deadline) {
        throw new WaitedTooLong(`import ${now.id} is still ${now.status} and continues, but the time to wait is over`);
      }
      await sleep(pauseMs, rest.signal);
    }
  }

  /** The result of every row, as it arrives. */
  async *rows(job: Job, options: CallOptions = {}): AsyncGenerator<RowReport, void> {
    for await (const line of this.connection.lines(this.#address(job), "application/x-ndjson", options)) {
      const row = jsonObject(line);
      if (typeof row?.["row"] !== "number") {
        throw new UnexpectedAnswer(`a line of the report is not a row: ${excerpt(line)}`, 200, excerpt(line));
      }
      yield row as unknown as RowReport;
    }
  }

  /** The failed rows with their errors, as parts of a CSV file; correct them there and import the file again. */
  failures(job: Job, options: CallOptions = {}): AsyncGenerator<Uint8Array, void> {
    return this.connection.parts(this.#address(job), "text/csv", options);
  }

  #address(job: Job): string {
    return `${this.path}/${segment(typeof job === "string" ? job : job.id)}`;
  }
}

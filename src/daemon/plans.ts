import { exists } from "#files/disk.ts";
import { InputError } from "#errors.ts";
import type { Plan, Change } from "#plan/change.ts";
import { comparePlans, storedChanges, withExcerpts, withStoredPlan } from "#plan/stored.ts";
import type { Excerpts, Filter, PlanDifferences } from "#plan/stored.ts";
import { QuarantinedRecords } from "#state/quarantined.ts";
import type { Plans } from "#state/plans.ts";
import type { RunRecord } from "#state/record.ts";

/** The stored plans of runs, for the console and the control API. */
export class RunPlans {
  readonly #store: Plans;
  readonly #spill: string;

  /** @param spill where a workbench puts what does not fit into memory */
  constructor(store: Plans, spill: string) {
    this.#store = store;
    this.#spill = spill;
  }

  /**
   * Opens the plan of a run for as long as `read` takes. What it shows is as far as it matches the filter.
   * @throws {InputError} when the run has none
   */
  async read<Result>(
    { id, digest, counts }: RunRecord,
    filter: Filter,
    read: (plan: Plan) => Promise<Result>,
  ): Promise<Result> {
    const files = await this.#filesOf(id);
    if (digest === undefined || counts === undefined) throw new InputError(`run ${id} has no plan`);
    return withStoredPlan({ digest, counts }, files, filter, read);
  }

  /** The same, for reading it page by page. */
  async excerpts<Result>(
    { id }: RunRecord,
    filter: Filter,
    read: (excerpts: Excerpts) => Promise<Result>,
  ): Promise<Result> {
    return withExcerpts(await this.#filesOf(id), filter, read);
  }

  /** The changes of a run, as far as they match the filter. */
  async *changes(run: RunRecord, filter: Filter): AsyncIterable<Change> {
    yield* storedChanges(run, await this.#filesOf(run.id), filter);
  }

  /** The quarantined records that a run has read; undefined where they are not stored. */
  async quarantined({ id, sameAs }: RunRecord): Promise<QuarantinedRecords | undefined> {
    for (const each of [id, sameAs]) {
      if (each === undefined) continue;
      await this.#store.fetch([each]);
      const file = this.#store.file(each, "quarantined");
      if (await exists(file)) return new QuarantinedRecords(file, this.#spill);
    }
    return undefined;
  }

  /** How the plan of a run differs from one that was shown before. */
  async compare(shown: RunRecord, now: RunRecord): Promise<PlanDifferences> {
    await this.#store.fetch([shown.id, now.id]);
    return comparePlans(this.#store.file(shown.id, "changes"), this.#store.file(now.id, "changes"), this.#spill);
  }

  async #filesOf(id: string): Promise<{ readonly file: string; readonly spill: string }> {
    await this.#store.fetch([id]);
    return { file: this.#store.file(id, "changes"), spill: this.#spill };
  }
}

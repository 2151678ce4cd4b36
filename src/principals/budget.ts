import { InputError } from "#errors.ts";
import { formatNumber } from "#text.ts";

/**
 * How much an expression may do for one record: an operation is a step, as is each value of a list and each eight
 * characters of a text that it reads or makes. A count, not a time: the same record always has the same outcome.
 * So many steps take a twentieth of a second.
 */
const mostSteps = 500_000;

/** A record that is large by itself may take more: so many for each step that its values are. */
const stepsPerValue = 30;

/** How much an expression may do for all records of a run: some minutes. */
const mostStepsOfRun = 10_000_000_000;

/** How often the steps of an evaluation that took too many count for the run. */
const weightOfFailure = 10;

const charactersPerStep = 8;

/** One value that is thrown again and again: CEL's `exists`, `all`, `||` and `&&` go on after an error. */
const exhausted = new Error("the budget is spent");

let left = 0;

/** The expression took too many steps in all: this concerns the run, not the record. */
export class RunBudgetError extends InputError {}

/** Counts what one expression does, record by record. */
export class Budget {
  private total = 0;
  private readonly place: () => string;
  private readonly most: number;

  /** @param place of the expression, for a message */
  constructor(place: () => string, most = mostStepsOfRun) {
    this.place = place;
    this.most = most;
  }

  /**
   * Evaluates the expression for a record.
   * @param size of the record's values in steps, see `sizeOf`
   * @throws {Error} it takes more steps than a record may; what `evaluate` throws
   * @throws {RunBudgetError} all records together took more than a run may
   */
  evaluate<Value>(size: number, evaluate: () => Value): Value {
    if (this.total > this.most)
      throw new RunBudgetError(
        `${this.place()}: takes more than ${formatNumber(this.most)} steps in one run; ${advice}`,
      );
    const allowed = mostSteps + stepsPerValue * size;
    left = allowed;
    let value: Value | undefined;
    try {
      value = evaluate();
    } catch (error) {
      if (left >= 0) throw error;
    } finally {
      // A rule that is too much for most records is so for the run: it ends before hours have passed.
      this.total += (left < 0 ? weightOfFailure : 1) * (allowed - left);
    }
    // Whatever came of it: an `||` may have gone on.
    // The same words for every record: reports count them.
    if (left < 0) throw new Error(`takes more than ${formatNumber(mostSteps)} steps; ${advice}`);
    return value as Value;
  }
}

const advice = "nest map, filter, all and exists less deeply, or make shorter texts and lists";

/** Takes steps from what the expression has left. */
export function spend(steps: number): void {
  left -= steps;
  if (left < 0) throw exhausted;
}

/** Takes the steps that a value is worth. Stops where they are spent: lists that share their values can be endless. */
export function spendValue(value: unknown): void {
  if (typeof value === "string") {
    spend(stepsOf(value.length));
    return;
  }
  spend(1);
  if (typeof value !== "object" || value === null) return;
  if (Array.isArray(value)) for (const each of value) spendValue(each);
  else if (value.constructor === Object) for (const each of Object.values(value)) spendValue(each);
  else if (value instanceof Uint8Array) spend(stepsOf(value.length));
}

/** How many steps a text of this length is. */
export function stepsOf(characters: number): number {
  return 1 + Math.floor(characters / charactersPerStep);
}

/** How many steps there are left. */
export function stepsLeft(): number {
  return Math.max(0, left);
}

/** The size of a value of a record, in steps. */
export function sizeOf(value: unknown): number {
  if (typeof value === "string") return Math.floor(value.length / charactersPerStep);
  return Array.isArray(value) ? value.length : 0;
}

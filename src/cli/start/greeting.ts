import type { Output } from "#daemon/output.ts";

/** How long the greeting waits for the first runs, in milliseconds, and how often it looks. */
const wait = { longest: 15_000, pause: 100 } as const;

/** What you must not miss after a start: where the console is, the password, and what to do next. */
export class Greeting {
  readonly #output: Output;
  #lines: readonly string[] | undefined;
  #timer: NodeJS.Timeout | undefined;

  constructor(output: Output) {
    this.#output = output;
  }

  /** Shows the password at once where nobody watches. @param place a sentence: where what is */
  set(place: string, password: string | undefined, hint: string): void {
    const { interactive, colour, say } = this.#output;
    if (!interactive) {
      if (password !== undefined) say(password);
      return;
    }
    const bold = (line: string): string => (colour ? `\u001B[1m${line}\u001B[22m` : line);
    this.#lines = [...(password === undefined ? [] : [bold(password)]), `${place} ${hint}Ctrl-C stops Rollcall.`];
  }

  /** At a terminal, shows the rest as soon as the first runs are over: what is shown last is seen. */
  whenQuiet(isBusy: () => boolean): void {
    const ends = performance.now() + wait.longest;
    const look = (): void => {
      if (isBusy() && performance.now() < ends) this.#timer = setTimeout(look, wait.pause);
      else this.show();
    };
    look();
  }

  /** Shows it now, unless it was shown. */
  show(): void {
    clearTimeout(this.#timer);
    if (this.#lines === undefined) return;
    this.#output.say(["", ...this.#lines, ""].join("\n"));
    this.#lines = undefined;
  }
}

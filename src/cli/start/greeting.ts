import { passwordNotice } from "#daemon/context.ts";
import type { Configuration } from "#config/configuration.ts";
import { command } from "#commands.ts";
import type { Output } from "#daemon/output.ts";

interface Greeted {
  readonly url: string;
  readonly hasConsole: boolean;
  /** The generated password. */
  readonly password: string | undefined;
  readonly configuration: Configuration;
}

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

  /** Shows the password at once where nobody watches. */
  set({ url, hasConsole, password: generated, configuration }: Greeted): void {
    const { interactive, colour, say } = this.#output;
    const password = generated === undefined ? undefined : passwordNotice(configuration, generated);
    if (!interactive) {
      if (password !== undefined) say(password);
      return;
    }
    const bold = (line: string): string => (colour ? `\u001B[1m${line}\u001B[22m` : line);
    const place = hasConsole ? `The console is at ${url}/.` : `The service is at ${url}.`;
    const hint =
      Object.keys(configuration.syncs).length > 0
        ? `\`${command("runs")}\` in another terminal shows what was done. `
        : "";
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

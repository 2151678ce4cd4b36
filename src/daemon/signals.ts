import { isatty } from "node:tty";

/**
 * The signals of a daemon, from now on. One that arrives before its listener is delivered to it later. This also stops
 * Node from opening its debugger at SIGUSR1.
 */
export class Signals {
  readonly #stopped = Promise.withResolvers<string>();
  readonly #terminals = [0, 1, 2].filter((stream) => isatty(stream));
  readonly #hungUp = new Pending();
  readonly #demanded = new Pending();
  #again: (() => void) | undefined;

  constructor() {
    process.on("SIGINT", this.#onStop).on("SIGTERM", this.#onStop);
    process.on("SIGHUP", this.#onHangUp).on("SIGUSR1", this.#onDemand);
  }

  /** Resolves to the first signal to stop. */
  get stopped(): Promise<string> {
    return this.#stopped.promise;
  }

  /** Is called at every further signal to stop. */
  again(listener: () => void): void {
    this.#again = listener;
  }

  /** Is called at every SIGHUP, except one sent because the terminal was closed: that is a signal to stop. */
  hangUp(listener: () => unknown): void {
    this.#hungUp.tell(listener);
  }

  /** Is called at every SIGUSR1. */
  demand(listener: () => unknown): void {
    this.#demanded.tell(listener);
  }

  end(): void {
    process.off("SIGINT", this.#onStop).off("SIGTERM", this.#onStop);
    process.off("SIGHUP", this.#onHangUp).off("SIGUSR1", this.#onDemand);
  }

  readonly #onStop = (signal: string): void => {
    this.#stopped.resolve(signal);
    this.#again?.();
  };

  readonly #onHangUp = (signal: string): void => {
    if (this.#terminals.some((stream) => !isatty(stream))) this.#onStop(signal);
    else this.#hungUp.came();
  };

  readonly #onDemand = (): void => {
    this.#demanded.came();
  };
}

/** A signal that may arrive before its listener. */
class Pending {
  #listener: (() => unknown) | undefined;
  #waits = false;

  came(): void {
    if (this.#listener === undefined) this.#waits = true;
    else void this.#listener();
  }

  tell(listener: () => unknown): void {
    this.#listener = listener;
    if (this.#waits) void listener();
    this.#waits = false;
  }
}

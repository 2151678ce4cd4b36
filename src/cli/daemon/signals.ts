import { isatty } from "node:tty";

/** The signals that a process which stays up listens to. What comes before there is a listener is kept for it. */
export interface Signals {
  /** The first signal to stop. */
  readonly stopped: Promise<string>;
  /** Is called when there is another one. */
  again(listener: () => void): void;
  /** Is called at every SIGHUP, unless it says that the terminal is gone: that is a signal to stop. */
  hangUp(listener: () => unknown): void;
  /** Is called at every SIGUSR1. */
  demand(listener: () => unknown): void;
  end(): void;
}

/** Listens from now on. SIGUSR1 then no longer opens a port for debuggers, as it does in Node by itself. */
export function listenToSignals(): Signals {
  const { promise, resolve } = Promise.withResolvers<string>();
  const hadTerminal = isatty(1);
  let onAgain: (() => void) | undefined;
  const hungUp = pending();
  const demanded = pending();
  const onStop = (signal: string): void => {
    resolve(signal);
    onAgain?.();
  };
  const onHangUp = (signal: string): void => {
    if (hadTerminal && !isatty(1)) onStop(signal);
    else hungUp.came();
  };
  process.on("SIGINT", onStop).on("SIGTERM", onStop).on("SIGHUP", onHangUp).on("SIGUSR1", demanded.came);
  return {
    stopped: promise,
    again: (listener) => {
      onAgain = listener;
    },
    hangUp: hungUp.tell,
    demand: demanded.tell,
    end: () => {
      process.off("SIGINT", onStop).off("SIGTERM", onStop).off("SIGHUP", onHangUp).off("SIGUSR1", demanded.came);
    },
  };
}

/** A signal that may come before anybody can do anything about it. */
function pending(): { came(): void; tell(listener: () => unknown): void } {
  let listener: (() => unknown) | undefined;
  let waits = false;
  return {
    came: () => {
      if (listener === undefined) waits = true;
      else void listener();
    },
    tell: (told) => {
      listener = told;
      if (waits) void told();
      waits = false;
    },
  };
}

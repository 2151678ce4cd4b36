import { isatty } from "node:tty";

/** The signals that a process which stays up listens to. */
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
  let onHangUp: (() => unknown) | undefined;
  let onDemand: (() => unknown) | undefined;
  const onStop = (signal: string): void => {
    resolve(signal);
    onAgain?.();
  };
  const listeners: Partial<Record<NodeJS.Signals, (signal: NodeJS.Signals) => void>> = {
    SIGINT: onStop,
    SIGTERM: onStop,
    SIGHUP: (signal) => {
      if (hadTerminal && !isatty(1)) onStop(signal);
      else void onHangUp?.();
    },
    SIGUSR1: () => {
      void onDemand?.();
    },
  };
  const entries = Object.entries(listeners) as [NodeJS.Signals, (signal: NodeJS.Signals) => void][];
  for (const [signal, listener] of entries) process.on(signal, listener);
  return {
    stopped: promise,
    again: (listener) => {
      onAgain = listener;
    },
    hangUp: (listener) => {
      onHangUp = listener;
    },
    demand: (listener) => {
      onDemand = listener;
    },
    end: () => {
      for (const [signal, listener] of entries) process.off(signal, listener);
    },
  };
}

import { InvalidArgumentError } from "commander";
import type { Head } from "#sync/audit/chain.ts";

/** The value of `--head`: `12:9f86d0…`, as `rollcall audit verify` shows it. */
export function headText(text: string): Head {
  const { sequence, hash } = /^(?<sequence>\d{1,15}):(?<hash>[0-9a-f]{64})$/.exec(text)?.groups ?? {};
  if (sequence === undefined || hash === undefined)
    throw new InvalidArgumentError("expected NUMBER:HASH, as `rollcall audit verify` shows the last entry.");
  return { sequence: Number(sequence), hash };
}

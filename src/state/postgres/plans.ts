import { ledgerPath } from "#state/ledger/ledger.ts";
import type { Plans } from "#state/plans.ts";
import { partOf } from "#state/plans.ts";
import type { SharedFiles } from "./files.ts";

function of(...ids: readonly string[]): readonly string[] {
  return ids.map((id) => `runs/${id}/`);
}

/** The stored plans of several processes: each has copies in its folder. */
export function openSharedStore(own: Plans, files: SharedFiles): Plans {
  return {
    ...own,
    save: async (id, connection, planned) => {
      const seal = await own.save(id, connection, planned);
      await files.push(of(id));
      return seal;
    },
    saveQuarantined: async (id, connection) => {
      await own.saveQuarantined(id, connection);
      await files.push(of(id));
    },
    load: async (id, connection) => {
      await files.pull(of(id));
      return own.load(id, connection);
    },
    fetch: (ids) => files.pull(of(...ids)),
    replaceByPart: async (id) => {
      const both = of(id, partOf(id));
      await files.pull(both);
      await own.replaceByPart(id);
      await files.push(both);
    },
    renew: async (id, newer) => {
      const both = of(id, newer);
      await files.pull(both);
      await own.renew(id, newer);
      await files.push(both);
    },
    prune: async (runs) => {
      await own.prune(runs);
      const kept = new Set([...runs.ended, ...runs.underWay.flatMap((id) => [id, partOf(id)])]);
      await files.prune("runs", (name) => kept.has(name));
    },
  };
}

/** What the runs of a sync leave for the next one, as beginnings of paths. */
export const filesOf = {
  ledger: (_: string, place: string) => [ledgerPath(place)],
  baseline: (sync: string) => [`baselines/${sync}.json`, `baselines/${sync}@`],
  exports: (_: string, place: string) => [`exports/${encodeURIComponent(place)}.json`],
} as const satisfies Record<string, (sync: string, place: string) => readonly string[]>;

export type RunFiles = keyof typeof filesOf;

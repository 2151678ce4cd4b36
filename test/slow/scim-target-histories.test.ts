import fc from "fast-check";
import { expect, it } from "vitest";
import { profiles } from "#connectors/scim/target/profiles.ts";
import { cases } from "../support/random.ts";
import { servers } from "../support/scim-target/limits.ts";
import { ScimApplication } from "../support/scim-target/server.ts";
import type { Received } from "../support/scim-target/server.ts";
import { heldBy, Synced } from "../support/scim-target/synced.ts";
import type { Person } from "../support/scim-target/synced.ts";

const names = ["ada", "bob", "cy", "dan", "eve"];
const teams = ["all", "engines", "navy"];

const person = (key: string): fc.Arbitrary<Person> =>
  fc.record({
    key: fc.constant(key),
    login: fc.constantFrom(key, key, `${key}.x`),
    title: fc.constantFrom(undefined, "Boss", "Clerk"),
    teams: fc.subarray(teams),
  });

const company = fc.subarray(names, { minLength: 1 }).chain((some) => fc.tuple(...some.map(person)));

/** What happens between two states of the company. */
const step = fc.record({
  company,
  /** The change at which the run is killed, and whether it was still made. */
  ends: fc.option(fc.record({ at: fc.nat(8), fault: fc.constantFrom("before" as const, "after" as const) })),
  /** What somebody does there by hand, to the user or group with this number. */
  hand: fc.array(
    fc.record({ does: fc.constantFrom("title", "leave", "join", "delete"), which: fc.nat(8), team: fc.nat(2) }),
    { maxLength: 2 },
  ),
});

it("whatever happens, every profile's application ends as planned, and nothing is created twice", async () => {
  const histories = fc.tuple(
    fc.constantFrom(...Object.keys(profiles)),
    fc.boolean(),
    fc.array(step, { minLength: 1, maxLength: 4 }),
  );
  await fc.assert(
    fc.asyncProperty(histories, async ([profile, suspends, steps]) => {
      const limits = servers[profile];
      if (limits === undefined) throw new Error(`no server for ${profile}`);
      const application = await ScimApplication.start({ ...limits, burst: 0 });
      const synced = await Synced.in(application, { profile }, suspends || limits.deactivates);
      try {
        for (const { company, ends, hand } of steps) {
          await synced.people(company);
          const killed = new AbortController();
          application.fault = faults(ends, () => killed.abort(new Error("killed")));
          const interruption = { stop: new AbortController().signal, abandon: killed.signal };
          await synced.run({ interruption }).catch(() => undefined);
          application.fault = () => undefined;
          for (const each of hand) byHand(application, each);
        }
        const last = steps.at(-1)?.company ?? [];
        for (let left = 3; left > 0; left--) if ((await synced.run()).outcome === "no change") break;
        expect(await synced.run()).toMatchObject({ outcome: "no change" });
        expect(heldBy(application)).toEqual(
          Object.fromEntries(last.map(({ login, title, teams }) => [login, { title, teams: teams.toSorted() }])),
        );
        const groups = [...application.groups.values()].map(({ displayName }) => displayName);
        expect(new Set(groups).size).toBe(groups.length);
      } finally {
        await application.close();
        await synced.close();
      }
    }),
    { numRuns: cases(2) },
  );
});

/** The run ends at once at a change, which the server has carried out or has not. */
function faults(ends: { readonly at: number; readonly fault: "before" | "after" } | null, kill: () => void) {
  let count = 0;
  return ({ method }: Received): "before" | "after" | undefined => {
    if (ends === null || method === "GET" || count++ < ends.at) return undefined;
    kill();
    return ends.fault;
  };
}

function byHand(
  application: ScimApplication,
  { does, which, team }: { readonly does: string; readonly which: number; readonly team: number },
): void {
  const users = [...application.users];
  const groups = [...application.members];
  const [id, user] = users[which % Math.max(1, users.length)] ?? [];
  const [group, members] = groups[team % Math.max(1, groups.length)] ?? [];
  if (id === undefined || user === undefined) return;
  if (does === "title") application.users.set(id, { ...user, title: "By hand" });
  else if (does === "delete") application.remove(id);
  else if (group !== undefined && members !== undefined && application.limits.shows !== "nowhere")
    application.members.set(
      group,
      new Set(does === "join" ? [...members, id] : [...members].filter((each) => each !== id)),
    );
}

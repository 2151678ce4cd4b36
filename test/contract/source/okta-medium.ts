import type { OktaDirectory, OktaGroup, OktaUser } from "../../support/okta-directory.ts";
import type { Company } from "./company.ts";

/** In every user, to be sure that no error shows what a directory holds. */
const secretQuestion = "hunter2-is-secret";
const updated = "2026-11-01T08:00:00.000Z";

/** The id of a user of a company. In the order of its users, as the simulator expects it. */
function idOf(number: string): string {
  return `00u${number.padStart(17, "0")}`;
}

/**
 * A company as Okta has it: groups in groups are not, so who is in the inner one is in the outer one, too. Two people who
 * left are still in Everyone, and in the groups that they were in.
 */
export function oktaDirectoryOf({
  users,
  groups,
}: Company): OktaDirectory & { users: OktaUser[]; groups: OktaGroup[] } {
  const people = users.map(({ number, login, displayName, mail }): OktaUser => ({
    id: idOf(number),
    status: "ACTIVE",
    lastUpdated: updated,
    profile: { login, displayName, ...(mail === undefined ? {} : { email: mail }), secondEmail: null, secretQuestion },
  }));
  const left = ["left-1", "left-2"].map((login): OktaUser => ({
    id: idOf(login).replace("00u", "00z"),
    status: "DEPROVISIONED",
    lastUpdated: updated,
    profile: { login, displayName: login, secretQuestion },
  }));
  const members = new Map(groups.map(({ name }): [string, number[]] => [name, [users.length]]));
  for (const [index, user] of users.entries()) for (const name of user.groups) members.get(name)?.push(index);
  const all = [...people, ...left];
  const group = (id: string, type: OktaGroup["type"], name: string, of: readonly number[], description?: string) => ({
    id: `00g${id.padStart(17, "0")}`,
    type,
    profile: { name, description: description ?? null },
    lastUpdated: updated,
    lastMembershipUpdated: updated,
    members: of,
  });
  return {
    users: all,
    groups: [
      group("everyone", "BUILT_IN", "Everyone", [...all.keys()]),
      ...groups.map(({ number, name, description }) =>
        group(number, "OKTA_GROUP", name, members.get(name) ?? [], description),
      ),
    ],
  };
}

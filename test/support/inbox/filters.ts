import type { Draw } from "./draw.ts";
import type { Known } from "./known.ts";

/** A filter of SCIM, and of what it is true. */
interface Filter {
  readonly text: string;
  readonly matches: (id: string) => boolean;
}

export function filterOfUsers({ users, groups }: Known, draw: Draw): Filter {
  const one = users.get(draw.one([...users.keys(), ""])) ?? {};
  const valueOf = (name: string): string => (one[name] as string | undefined) ?? "nothing";
  const mails = (id: string): string[] =>
    ((users.get(id)?.["emails"] ?? []) as { value: string }[]).map(({ value }) => value.toLowerCase());
  const mail = (one["emails"] as { value: string }[] | undefined)?.[0]?.value ?? "nobody@x.example";
  const isText = (name: string, value: string) => (id: string) =>
    users.get(id)?.[name] !== undefined && String(users.get(id)?.[name]).toLowerCase() === value.toLowerCase();
  const [userName, externalId, title] = [valueOf("userName"), valueOf("externalId"), valueOf("title")];
  const group = draw.one([...groups.keys()]);
  const simple: readonly Filter[] = [
    { text: `userName eq ${JSON.stringify(userName.toUpperCase())}`, matches: isText("userName", userName) },
    {
      text: `externalId eq ${JSON.stringify(externalId)}`,
      matches: (id) => users.get(id)?.["externalId"] === externalId,
    },
    { text: `title eq ${JSON.stringify(title)}`, matches: isText("title", title) },
    { text: `emails.value eq "${mail.toUpperCase()}"`, matches: (id) => mails(id).includes(mail.toLowerCase()) },
    { text: "active eq False", matches: (id) => users.get(id)?.["active"] === false },
    { text: "displayName pr", matches: (id) => users.get(id)?.["displayName"] !== undefined },
    { text: `id eq "${group}"`, matches: (id) => id === group },
  ];
  const [first, second] = [draw.one(simple), draw.one(simple)];
  return draw.one([
    first,
    first,
    { text: `not (${first.text})`, matches: (id) => !first.matches(id) },
    { text: `${first.text} or ${second.text}`, matches: (id) => first.matches(id) || second.matches(id) },
    { text: `${first.text} and (${second.text})`, matches: (id) => first.matches(id) && second.matches(id) },
  ]);
}

export function filterOfGroups({ users, groups }: Known, draw: Draw): Filter {
  const member = draw.one([...users.keys(), "nobody"]);
  const name = groups.get(draw.one([...groups.keys()]))?.displayName ?? "";
  const isMember = (id: string): boolean => groups.get(id)?.members.has(member) === true;
  return draw.one([
    { text: `members.value eq "${member}"`, matches: isMember },
    { text: `members[value eq "${member}"]`, matches: isMember },
    { text: `displayName eq "${name.toUpperCase()}"`, matches: (id) => groups.get(id)?.displayName === name },
  ]);
}

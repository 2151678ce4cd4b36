/** How a configuration names an application. */
interface Application {
  readonly url: string;
  /** Or where it is: `${env:APP_TOKEN}`. */
  readonly token: string;
  readonly profile?: string | undefined;
}

/**
 * A configuration whose sync `staff` writes the people of `people.csv` to an application, `app`; groups are those that rules name.
 * @param sync.id the column that identifies people; users: the rules, a line each; floor: of the limits; more: a line of the sync
 */
export function configurationOf(
  { url, token, profile = "generic" }: Application,
  sync: {
    readonly id: string;
    readonly users: readonly string[];
    readonly floor: number;
    readonly more?: string | undefined;
  },
): string {
  return `
daemon: { data: data }
targets:
  app: { connector: scim, url: "${url}", token: "${token}", profile: ${profile} }
sources:
  company: { connector: csv, users: { file: people.csv, id: ${sync.id} } }
syncs:
  staff:
    from: [company]
    to: app
    users:
${sync.users.map((rule) => `      ${rule}\n`).join("")}
    groupsFromRules: create
    limits: { floor: ${sync.floor} }
    ${sync.more ?? ""}
`;
}

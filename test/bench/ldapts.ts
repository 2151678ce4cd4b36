import { Client } from "ldapts";

/** A process of its own: reads users and groups with ldapts' client, and prints how many. */
export interface LdaptsRequest {
  readonly url: string;
  readonly dn: string;
  readonly password: string;
  readonly base: string;
  readonly pageSize: number;
}

const { url, dn, password, base, pageSize } = JSON.parse(process.argv[2] ?? "") as LdaptsRequest;
const client = new Client({ url });
await client.bind(dn, password);
let count = 0;
for (const [part, filter, attributes] of [
  ["people", "(objectClass=inetOrgPerson)", ["entryUUID", "uid", "cn", "mail"]],
  ["groups", "(objectClass=groupOfNames)", ["entryUUID", "cn", "description", "member"]],
] as const) {
  const options = { filter, attributes: [...attributes], paged: { pageSize } };
  for await (const { searchEntries } of client.searchPaginated(`ou=${part},${base}`, options))
    count += searchEntries.length;
}
await client.unbind();
console.log(count);

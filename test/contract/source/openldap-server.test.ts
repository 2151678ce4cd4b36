import { expect, test } from "vitest";
import { base, noOpenLdap, reader, startOpenLdap } from "../../support/ldap/openldap.ts";

const reason = await noOpenLdap();

test(
  "the OpenLDAP of the tests serves what was loaded and what was changed",
  { skip: reason !== undefined },
  async () => {
    await using server = await startOpenLdap({
      ldif: `dn: ou=people,${base}\nobjectClass: organizationalUnit\nou: people\n\n`,
      overlays: ["memberof", "syncprov"],
    });
    await server.modify(`dn: uid=ada,ou=people,${base}\nobjectClass: account\nuid: ada\n`);
    await server.kill();
    await server.start();
    const login = ["-LLL", "-x", "-H", server.url, "-D", reader.dn, "-w", reader.password];
    const search = (): Promise<string> =>
      server.tool("/usr/bin/ldapsearch", [...login, "-b", `ou=people,${base}`, "1.1"]);
    expect(await search()).toBe(`dn: ou=people,${base}\n\ndn: uid=ada,ou=people,${base}\n\n`);
    await server.configure(
      "dn: olcDatabase={1}mdb,cn=config\nchangetype: modify\nreplace: olcSizeLimit\nolcSizeLimit: 1\n",
    );
    await expect(search()).rejects.toThrow("Size limit exceeded");
    expect(await server.connections()).toBe(0);
  },
);

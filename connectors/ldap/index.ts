import type { Connector } from "#connector.ts";
import { describe, places } from "./describe.ts";
import { options, type Options } from "./options.ts";
import { read } from "./read.ts";
import { version } from "./version.ts";

/** Users, groups and memberships from LDAP servers, Active Directory among them. Its options: `README.md` beside this file. */
const ldap: Connector<Options> = {
  name: "ldap",
  options,
  open: (options, place) => ({
    read: (context) => read(options, place, context),
    describe: (context) => describe(options, place, context),
    places: (context) => places(options, place, context),
    version: (context) => version(options, place, context),
  }),
};

export default ldap;

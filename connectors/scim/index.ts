import type { Connector } from "#connector.ts";
import { authorizationOf } from "./authorization.ts";
import { describe } from "./describe.ts";
import { options, type Options } from "./options.ts";
import { read } from "./read.ts";

/** Users and groups from SCIM 2.0 servers and from files of SCIM resources. Its options: `README.md` beside this file. */
const scim: Connector<Options> = {
  name: "scim",
  options,
  open: (options, place) => {
    const authorization = authorizationOf(options.auth);
    return {
      read: (context) => read(options, authorization, place, context),
      describe: (context) => describe(options, authorization, place, context),
    };
  },
};

export default scim;

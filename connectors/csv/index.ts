import type { Connector } from "#connector.ts";
import { options, type Options } from "./options.ts";
import { read } from "./read.ts";

/** Users, groups and memberships from CSV files. Its options: `README.md` beside this file. */
const csv: Connector<Options> = {
  name: "csv",
  options,
  open: (options, { folder }) => ({ read: (context) => read(options, folder, context) }),
};

export default csv;

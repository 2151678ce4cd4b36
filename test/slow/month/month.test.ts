import { describe } from "vitest";
import { noOpenLdap } from "../../support/ldap/openldap.ts";
import { accidents } from "./accidents.ts";
import { departures } from "./departures.ts";
import { useLife } from "./life.ts";
import { ordinaryDays } from "./ordinary.ts";
import { reorganisation } from "./reorganisation.ts";

const reason = await noOpenLdap();

/**
 * A company with a real directory and a real service, each a process of its own, from day to day. After every step the
 * target must be what an oracle says that knows nothing of how Rollcall works.
 */
describe.skipIf(reason !== undefined)(`a month of a company${reason === undefined ? "" : ` (${reason})`}`, () => {
  const life = useLife();
  ordinaryDays(life);
  accidents(life);
  reorganisation(life);
  departures(life);
});

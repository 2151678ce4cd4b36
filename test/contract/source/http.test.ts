import type { Fault } from "../../support/http-directory.ts";
import { httpMedium, plainOptions, reportOptions } from "./http-medium.ts";
import type { HttpProvision } from "./http-medium.ts";
import { sourceSuite } from "./suite.ts";

const when = (name: Fault, message: RegExp, advice?: "fix" | "retry") => ({
  name: `the server ${name}`,
  inject: async ({ server }: HttpProvision) => void server.faults.add(name),
  message,
  ...(advice !== undefined && { advice }),
});

const gone = {
  name: "the server goes away",
  inject: ({ server }: HttpProvision) => server.close(),
  message: /nothing listens at|the connection was (?:lost|closed)|broke off/,
};

sourceSuite(
  httpMedium("lists over HTTP, in pages with totals", plainOptions, {
    attributes: { login: "login", displayName: "name", mail: "contact.mail", name: "name", description: "about" },
    describes: [
      /^http:\/\/127\.0\.0\.1:\d+\/plain, not encrypted \(http\)$/m,
      /^as the holder of a token$/m,
      /^9 users of 9 on the first page of http:\S+\/plain\/people$/m,
      /^7 groups of 7 on/m,
    ],
    faults: {
      before: [
        gone,
        {
          name: "the token is refused",
          inject: async ({ server }) => void server.faults.add("answers 403"),
          message: /answered 403 \(Forbidden: no rights to this list\): the credentials are not sufficient/,
        },
        when(
          "has no total",
          /plain\/people\?limit=200: the first page has no meta\.total, which is to prove that the list is complete/,
        ),
        when(
          "has no field for the next page",
          /plain\/people\?limit=200: the answer has no meta\.next \(next\), which every page has/,
        ),
        when("hides the last tenth", /meta\.total is 9, and there are 8|meta\.total is 7, and there are/, "retry"),
        when("gives nothing but ids", /every value but the id is null, so the account may not read it/),
      ],
      during: [
        gone,
        when("answers 503", /answered 503 \(tried 4 times\)/, "retry"),
        when("answers 403", /answered 403/),
        when("answers an error with 200", /the answer has no list at data\.list \(items\); there is error/),
        when("answers a page of HTML", /the answer is not JSON/),
        when("ends an answer early", /the answer ends here, before its end \(tried 4 times\)/),
        when("breaks off", /broke off or arrived damaged \(.*\) \(tried 4 times\)/),
        when("forgets the link", /meta\.total is 5,000, and there are 400/),
        when("repeats the link", /leads to one that came before: the service goes in circles/),
        when(
          "leads to another host",
          /the next page is at https:\/\/elsewhere\.example\.com, where no credentials may go/,
        ),
        when("has another total on each page", /meta\.total was 5,\d+ and is now 5,\d+: it changed while it was read/),
        when("has short pages", /meta\.total is 5,000, and there are 4,286/),
        when("hides the last tenth", /meta\.total is 5,000, and there are 4,500/),
      ],
    },
  }),
);

sourceSuite(
  httpMedium("reports over HTTP, each in one answer", reportOptions, {
    attributes: {
      login: "User_Name",
      displayName: "Preferred_Name",
      mail: "primaryWorkEmail",
      name: "Name",
      description: "About",
    },
    describes: [/^as the user ISU_Rollcall@acme$/m, /^9 users on the first page of \S+\/Workers$/m],
    faults: {
      before: [
        gone,
        when("answers an error with 200", /the answer has no list at Report_Entry \(items\); there is error/),
        when("ends an answer early", /the answer has no list at Report_Entry \(items\)|the answer ends here/),
      ],
      during: [
        gone,
        when("answers 503", /answered 503 \(tried 4 times\)/, "retry"),
        when("breaks off", /broke off or arrived damaged \(.*\) \(tried 4 times\)/),
      ],
    },
  }),
);

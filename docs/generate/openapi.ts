import { z } from "zod";
import {
  listedPrincipal,
  loginParameters,
  loginRequest,
  submittedPrincipal,
  syncResult,
} from "#wire/administration.ts";
import { errorBody, serviceHeaders } from "#wire/errors.ts";
import { dataTexts } from "#wire/texts.ts";
import { chunkHeaders, loadParameters, loadStarted, loadStatus } from "#wire/loads.ts";
import { compactData, fullData, headerParameters, pinboardParameters, visualizationHeader } from "#wire/pinboards.ts";
import {
  administrationRoutes,
  dataRoutes,
  familyA,
  familyB,
  loadRoutes,
  pinboardRoutes,
  sessionCookie,
} from "#wire/routes.ts";
import type { Route } from "#wire/routes.ts";

type Json = Record<string, unknown>;

interface Content {
  readonly type: string;
  readonly schema: Json;
  /** By name. A request's example is answered by the status whose example has the same name. */
  readonly examples: Json;
}

interface Answer {
  readonly description: string;
  readonly content?: Content;
  readonly headers?: Json;
}

interface Operation {
  readonly route: Route;
  readonly id: string;
  readonly summary: string;
  readonly description: string;
  readonly open?: boolean;
  readonly parameters?: readonly Json[];
  readonly request?: readonly Content[];
  readonly answers: Readonly<Record<number, Answer>>;
}

const ref = (name: string): Json => ({ $ref: `#/components/schemas/${name}` });
const string = { type: "string" };
const cycle = "0b8e2f57-6f0f-4a5e-8f56-0d4e1c0a7b11";
const pinboard = "11ae9113-9104-46eb-a4f8-18f4b53feaa7";
const visualization = "efbb85a6-8da3-41ad-8094-fc6c095ff4f7";
const form = "application/x-www-form-urlencoded";

/** A body of family A: always text/plain, whatever is in it (A.25). */
function text(examples: Json, schema: Json = string): Content {
  return { type: "text/plain", schema, examples };
}

function json(schema: Json, examples: Json): Content {
  return { type: "application/json", schema, examples };
}

const cookie = {
  "Set-Cookie": { description: "The session cookie, valid for both families.", schema: string },
};
const cycleParameter = {
  name: "cycle_id",
  in: "path",
  required: true,
  description: "What the start of the load returned. The example stands for that value.",
  schema: string,
  example: cycle,
};
function header(name: string, description: string, example: string): Json {
  return { name, in: "header", required: false, description, schema: string, example };
}

const principals = [
  { name: "planning", displayName: "Planning", principalTypeEnum: "LOCAL_GROUP" },
  {
    name: "ada",
    displayName: "Ada Lovelace",
    mail: "ada@example.com",
    principalTypeEnum: "LOCAL_USER",
    groupNames: ["planning"],
  },
];
const startRequest = {
  target: { database: "directory", table: "users" },
  format: { type: "csv", has_header_row: true },
  load_options: { max_ignored_rows: 10 },
};
const done = {
  cycle_id: cycle,
  internal_stage: "DONE",
  status: { code: "OK" },
  rows_written: "1",
  ignored_row_count: "1",
  bytes_written: "74",
  buffered_bytes_size: "0",
  ingested_network_bw: "7100",
  start_time: "1795258465000000",
  end_time: "1795258465010000",
  parsing_errors: ["row 2, column display_name: missing: the row has 1 of 4 fields"],
};
const ingesting = {
  cycle_id: cycle,
  internal_stage: "INGESTING",
  status: { code: "OK" },
  rows_written: "0",
  ignored_row_count: "0",
  bytes_written: "74",
  buffered_bytes_size: "74",
  ingested_network_bw: "7400",
  start_time: "1795258465000000",
};
const entityTag = {
  ETag: { description: "Another one after every change of users and groups.", schema: { type: "string" } },
};
const nothing = {
  usersAdded: [],
  usersDeleted: [],
  usersUpdated: [],
  groupsAdded: [],
  groupsDeleted: [],
  groupsUpdated: [],
};
const added = { ...nothing, usersAdded: ["ada"], groupsAdded: ["planning"] };
const error = (...debug: readonly string[]): Json => ({
  code: 10_002,
  incident_id_guid: "b1e7f0f5-3f0e-4b73-8e1c-2f8a3c0f6a01",
  trace_id_guid: "b1e7f0f5-3f0e-4b73-8e1c-2f8a3c0f6a02",
  debug: JSON.stringify(debug),
});
const people = {
  [visualization]: {
    name: "People",
    columnNames: ["people"],
    samplingRatio: 1,
    totalRowCount: 1,
    rowCount: 1,
    pageSize: -1,
    offset: -1,
  },
};
const headers = [
  {
    id: visualization,
    name: "People",
    author: "9a000000-0000-4000-8000-0000000000ff",
    created: 1_795_258_465_000,
    modified: 1_795_258_465_000,
    modifiedBy: "9a000000-0000-4000-8000-0000000000ff",
    owner: pinboard,
    vizType: "HEADLINE",
    title: { value: { text: "People in the directory" } },
  },
];

const started = { cycle_id: cycle, node_address: { host: "127.0.0.1", port: 8442 } };
function statusAnswers(examples: Json): Operation["answers"] {
  return {
    200: { description: "The status.", content: text(examples, ref("LoadStatus")) },
    400: { description: "The cycle does not exist." },
  };
}

const dataOperations: readonly Operation[] = [
  {
    route: dataRoutes.ping,
    id: "ping",
    summary: "Answer without a session",
    description: "A.2",
    open: true,
    answers: { 200: { description: "The service answers.", content: text({ ping: dataTexts.ping }) } },
  },
  {
    route: dataRoutes.login,
    id: "dataLogin",
    summary: "Log in (family A)",
    description: "Sections 2.1 and 4.1, A.1. An urlencoded body works as well.",
    open: true,
    request: [
      json(ref("LoginRequest"), {
        accepted: { username: "admin", password: "correct horse battery staple" },
        refused: { username: "admin", password: "wrong" },
      }),
    ],
    answers: {
      200: { description: "Logged in. The body is empty.", headers: cookie, content: text({ accepted: "" }) },
      401: { description: "Not a valid pair.", content: text({ refused: dataTexts.unverified }) },
      429: { description: "Too many failed logins (0.8); `Retry-After` says for how long." },
    },
  },
  {
    route: loadRoutes.start,
    id: "startLoad",
    summary: "Start a load cycle",
    description:
      "Sections 2.2 and 4.1, A.3 to A.5. Every key is optional but the database and the table, nested or flat.",
    request: [
      json(ref("LoadRequest"), {
        nested: startRequest,
        flat: { target_database: "directory", target_table: "users", field_separator: ";", empty_target: true },
        invalid: { target: { database: "directory" } },
      }),
    ],
    answers: {
      202: { description: "Started.", content: text({ nested: started, flat: started }, ref("LoadStarted")) },
      400: {
        description: "Invalid parameters; the text repeats the body.",
        content: text({ invalid: dataTexts.invalidStart('{"target":{"database":"directory"}}') }),
      },
    },
  },
  {
    route: loadRoutes.list,
    id: "listLoads",
    summary: "List the caller's load cycles",
    description: "A.14",
    answers: {
      200: {
        description: "Their status.",
        content: text({ cycles: [ingesting] }, { type: "array", items: ref("LoadStatus") }),
      },
    },
  },
  {
    route: loadRoutes.upload,
    id: "uploadChunk",
    summary: "Upload a chunk of whole rows",
    description: "Section 4.1, A.6 to A.8. The first part with a filename is the chunk, whatever its name and type.",
    parameters: [
      cycleParameter,
      header(chunkHeaders.id, "Makes the upload idempotent: the same id again replaces the chunk (A.8).", "1"),
    ],
    request: [
      {
        type: "multipart/form-data",
        schema: {
          type: "object",
          properties: { file: { type: "string", contentMediaType: "application/octet-stream" } },
          required: ["file"],
        },
        examples: {
          uploaded: { file: "name,display_name,mail,description\nada,Ada Lovelace,ada@example.com,\ntorn\n" },
        },
      },
    ],
    answers: {
      202: { description: "Stored.", content: text({ uploaded: dataTexts.uploadComplete }) },
      400: {
        description: "No file part, an unknown cycle or table, or a cycle that accepts no data (section 7, A.9).",
      },
      413: { description: "More than the configured size." },
      507: { description: "The disk is full." },
    },
  },
  {
    route: loadRoutes.commit,
    id: "commitLoad",
    summary: "Commit a load cycle",
    description: "Section 4.1, A.8, A.9. The status tells when it is done.",
    parameters: [
      cycleParameter,
      header(chunkHeaders.count, "The service checks that this many chunks arrived (A.8).", "1"),
    ],
    answers: {
      202: { description: "The commit has begun.", content: text({ committed: dataTexts.commitMade }) },
      400: { description: "Another number of chunks arrived, or the cycle was cancelled." },
      500: { description: "The cycle does not exist." },
    },
  },
  {
    route: loadRoutes.status,
    id: "loadStatus",
    summary: "Status of a load cycle",
    description: "Sections 2.4 and 4.1, A.10, A.11. While a commit runs the answer may be held for up to 2 seconds.",
    parameters: [cycleParameter],
    answers: statusAnswers({ done }),
  },
  {
    route: loadRoutes.publicStatus,
    id: "publicLoadStatus",
    summary: "Status of a load cycle, at its second path",
    description: "A.10",
    parameters: [cycleParameter],
    answers: statusAnswers({ ingesting }),
  },
  {
    route: loadRoutes.badRecords,
    id: "badRecords",
    summary: "The rejected rows, exactly as they were sent",
    description: "Section 2.5, A.13",
    parameters: [cycleParameter],
    answers: {
      200: { description: "The rows.", content: text({ rejected: "torn\n" }) },
      500: { description: "No row was rejected, or the cycle does not exist." },
    },
  },
  {
    route: loadRoutes.inputSummary,
    id: "inputSummary",
    summary: "The parameters of a load with every default filled in",
    description: "A.14",
    parameters: [cycleParameter],
    answers: {
      200: {
        description: "The parameters.",
        content: text(
          { summary: { load_params: loadParameters.parse(startRequest) } },
          { type: "object", properties: { load_params: ref("LoadRequest") }, required: ["load_params"] },
        ),
      },
      400: { description: "The cycle does not exist." },
    },
  },
  {
    route: loadRoutes.cancel,
    id: "cancelLoad",
    summary: "Cancel a load cycle",
    description: "Section 4.1, A.9. Cancelling a finished cycle has no effect.",
    parameters: [cycleParameter],
    answers: {
      200: { description: "Cancelled. The body is empty.", content: text({ cancelled: "" }) },
      400: { description: "The cycle does not exist." },
    },
  },
];

/** In a request, `vizid` is one text; the schema sees every value that was given. */
const dataSchema = schemaOf(
  pinboardParameters.extend({
    vizid: z.string().optional().describe("GUIDs of visualizations: one, or `[g1,g2]`. Empty means all."),
  }),
  "input",
);
const dataParameters = parameters(dataSchema, { id: pinboard, vizid: visualization, formattype: "COMPACT" });
const dataAnswers = {
  200: {
    description: "By the ids of the visualizations.",
    content: json(
      { anyOf: [ref("CompactData"), ref("FullData")] },
      {
        compact: mapEach(people, (each) => ({ ...each, data: [[1]] })),
        full: mapEach(people, (each) => ({ ...each, pageSize: 10, offset: 0, data: [{ people: 1 }] })),
      },
    ),
  },
  400: {
    description: "An unknown pinboard or visualization, or a parameter that is not valid.",
    content: json(ref("Error"), { invalid: error("id: must be a GUID") }),
  },
};
const headersAnswers = {
  200: {
    description: "The headers.",
    content: json({ type: "array", items: ref("VisualizationHeader") }, { headers }),
  },
  400: { description: "An unknown or malformed id." },
};

const administrationOperations: readonly Operation[] = [
  {
    route: administrationRoutes.login,
    id: "login",
    summary: "Log in (family B)",
    description: "Section 4.2, 0.3 to 0.5. The parameters may come in the query as well.",
    open: true,
    request: [
      {
        type: form,
        schema: ref("LoginParameters"),
        examples: {
          accepted: { username: "admin", password: "correct horse battery staple", rememberme: "true" },
          refused: { username: "admin", password: "wrong" },
        },
      },
    ],
    answers: {
      204: { description: "Logged in.", headers: cookie, content: text({ accepted: "" }) },
      401: { description: "Not a valid pair. The body is empty.", content: text({ refused: "" }) },
      429: { description: "Too many failed logins (0.8); `Retry-After` says for how long." },
    },
  },
  {
    route: administrationRoutes.userSync,
    id: "syncPrincipals",
    summary: "Make the users and groups what a list says",
    description:
      "Sections 2.7, 2.8 and 4.2, B.2 to B.8. Takes `multipart/form-data` as well. Parameter names are case-insensitive; " +
      "`removeDeleted` and `removeDelete` are other names of `remoteDeleted`, `password` of `defaultPassword`.",
    request: [
      {
        type: form,
        schema: {
          type: "object",
          properties: {
            principals: {
              type: "string",
              description: "A JSON array of principals. Without it, the answer is a 415.",
              contentMediaType: "application/json",
              contentSchema: { type: "array", items: ref("Principal") },
            },
            applyChanges: {
              type: "string",
              description: "`true` applies the difference. Anything but `true` or `false` is a 400. Default false.",
              examples: ["true"],
            },
            remoteDeleted: {
              type: "string",
              description: "`false` keeps what is not in the list. Default true (B.4).",
            },
            defaultPassword: { type: "string", description: "The password of every user that is created." },
          },
        },
        examples: {
          preview: { principals: JSON.stringify(principals), applyChanges: "false", defaultPassword: "change me soon" },
          applied: { principals: JSON.stringify(principals), applyChanges: "true", defaultPassword: "change me soon" },
          withoutDeletions: { principals: "[]", applyChanges: "true", remoteDeleted: "false" },
          invalid: { principals: '[{"name":"ada"}]' },
          withoutList: { applyChanges: "false" },
        },
      },
    ],
    answers: {
      200: {
        description: "The difference.",
        content: json(ref("SyncResult"), { preview: added, applied: added, withoutDeletions: nothing }),
      },
      400: {
        description: "Nothing was changed; every problem is named (B.5).",
        content: json(ref("Error"), {
          invalid: error(
            "principals[0].displayName: must be a string that is not empty",
            'principals[0].principalTypeEnum: must be "LOCAL_USER" or "LOCAL_GROUP"',
          ),
        }),
      },
      415: {
        description: "Another content type, or no `principals`. The body is empty.",
        content: text({ withoutList: "" }),
      },
    },
  },
  {
    route: administrationRoutes.userList,
    id: "listPrincipals",
    summary: "List all users and groups",
    description:
      "Section 4.2, B.9. `If-None-Match` with the entity tag of an earlier answer asks whether it still holds.",
    answers: {
      304: { description: "The list is still the one with that entity tag. The body is empty.", headers: entityTag },
      200: {
        description: "Users first, then groups, each sorted by name.",
        headers: entityTag,
        content: json(
          { type: "array", items: ref("ListedPrincipal") },
          {
            list: [
              {
                name: "ada",
                displayName: "Ada Lovelace",
                mail: "ada@example.com",
                principalTypeEnum: "LOCAL_USER",
                groupNames: ["planning"],
                visibility: "DEFAULT",
                created: 1_795_258_465_000,
                modified: 1_795_258_465_000,
              },
              {
                name: "planning",
                displayName: "Planning",
                principalTypeEnum: "LOCAL_GROUP",
                groupNames: [],
                visibility: "DEFAULT",
                created: 1_795_258_465_000,
                modified: 1_795_258_465_000,
              },
            ],
          },
        ),
      },
    },
  },
  {
    route: pinboardRoutes.data,
    id: "pinboardData",
    summary: "The data of a pinboard or of some of its visualizations",
    description: "Section 4.2, B.11 to B.13, B.15. The parameters come in the query or in the form.",
    request: [
      {
        type: form,
        schema: { ...dataSchema, description: "Names are case-insensitive." },
        examples: {
          compact: { id: pinboard, vizid: visualization },
          full: { id: pinboard, vizid: visualization, formattype: "FULL", batchsize: "10", pagenumber: "1" },
          invalid: { id: "not a GUID" },
        },
      },
    ],
    answers: dataAnswers,
  },
  {
    route: pinboardRoutes.dataByGet,
    id: "pinboardDataByGet",
    summary: "The same by GET",
    description: "B.11",
    parameters: dataParameters,
    answers: {
      ...dataAnswers,
      200: {
        description: "In the form COMPACT.",
        content: json(ref("CompactData"), { compact: dataAnswers[200].content.examples["compact"] }),
      },
      400: { description: dataAnswers[400].description },
    },
  },
  ...([pinboardRoutes.headers, pinboardRoutes.pinboardHeaders] as const).map((route, index): Operation => ({
    route,
    id: index === 0 ? "visualizationHeaders" : "pinboardHeaders",
    summary: index === 0 ? "List the visualizations of a pinboard" : "The same at its second path",
    description: "Sections 2.6 and 4.2, B.14. Without an id: an empty list.",
    parameters: parameters(schemaOf(headerParameters, "input"), { id: pinboard }, false),
    answers: headersAnswers,
  })),
  {
    route: administrationRoutes.logout,
    id: "logout",
    summary: "Log out",
    description: "Section 4.2",
    answers: {
      204: { description: "The session has ended.", content: text({ ended: "" }) },
      401: { description: "No valid session. The body is empty." },
    },
  },
];

/** The interface of the service as an OpenAPI 3.1 document. */
export function openApi(version: string): Json {
  const paths: Record<string, Json> = {};
  for (const [family, operations] of [
    ["A", dataOperations],
    ["B", administrationOperations],
  ] as const) {
    for (const operation of operations) {
      const { method, path } = operation.route;
      const place = (family === "A" ? familyA : familyB) + path.replaceAll(/:(\w+)/g, "{$1}");
      paths[place] = { ...paths[place], [method.toLowerCase()]: operationOf(operation, family) };
    }
  }
  return {
    openapi: "3.1.0",
    info: {
      title: "Rollcall service",
      version,
      description:
        "Bulk data loads into tables (family A) and users, groups, sessions and pinboards (family B). Generated from `src/wire` by " +
        "`npm run docs`; the numbers in the descriptions are those of docs/interface. The tests send every example to a real service.",
      license: { name: "MIT", identifier: "MIT" },
    },
    servers: [{ url: "http://127.0.0.1:8442", description: "The default address." }],
    security: [{ session: [] }],
    tags: [
      { name: "A", description: "Data loads. Bodies are text/plain, errors included." },
      {
        name: "B",
        description: "Administration and queries. Also below each configured prefix, by default `/callosum/v1`.",
      },
    ],
    paths,
    components: {
      securitySchemes: {
        session: { type: "apiKey", in: "cookie", name: sessionCookie, description: "Set by either login (0.4)." },
      },
      headers: mapEach(
        {
          [serviceHeaders.incident]: "Names this answer in the service's log.",
          [serviceHeaders.trace]: "Names the request in the service's log.",
          [serviceHeaders.time]: "How long the request took, in microseconds.",
          [serviceHeaders.address]: "The address of the service.",
        },
        (description) => ({ description, schema: string }),
      ),
      schemas: {
        LoginRequest: schemaOf(loginRequest, "input"),
        LoginParameters: schemaOf(loginParameters, "input"),
        LoadRequest: schemaOf(loadParameters, "input"),
        LoadStarted: schemaOf(loadStarted),
        LoadStatus: schemaOf(loadStatus),
        Principal: schemaOf(submittedPrincipal, "input"),
        ListedPrincipal: schemaOf(listedPrincipal),
        SyncResult: schemaOf(syncResult),
        CompactData: schemaOf(compactData),
        FullData: schemaOf(fullData),
        VisualizationHeader: schemaOf(visualizationHeader),
        Error: { ...schemaOf(errorBody), description: "`debug` is a string that holds a JSON array of strings (B.1)." },
      },
    },
  };
}

function operationOf(
  { id, summary, description, open, parameters, request, answers }: Operation,
  family: string,
): Json {
  const common: Readonly<Record<number, Answer>> =
    open === true
      ? {}
      : { 401: { description: "No valid session." }, 403: { description: "The session lacks the privilege (0.6)." } };
  const own =
    family === "A"
      ? {}
      : Object.fromEntries(
          Object.values(serviceHeaders).map((name) => [name, { $ref: `#/components/headers/${name}` }]),
        );
  return {
    operationId: id,
    tags: [family],
    summary,
    description,
    ...(open === true ? { security: [] } : {}),
    parameters,
    ...(request === undefined ? {} : { requestBody: { required: true, content: contentOf(request) } }),
    responses: mapEach({ ...common, ...answers }, ({ description, content, headers }) => {
      const all = { ...headers, ...own };
      return {
        description,
        ...(Object.keys(all).length === 0 ? {} : { headers: all }),
        ...(content === undefined ? {} : { content: contentOf([content]) }),
      };
    }),
  };
}

function contentOf(contents: readonly Content[]): Json {
  return Object.fromEntries(
    contents.map(({ type, schema, examples }) => [
      type,
      { schema, examples: mapEach(examples, (value) => ({ value })) },
    ]),
  );
}

/** Query parameters of a schema, each with its example. */
function parameters(schema: Json, examples: Readonly<Record<string, string>>, allRequired = true): Json[] {
  const { properties = {}, required = [] } = schema as { properties?: Record<string, Json>; required?: string[] };
  return Object.entries(properties).map(([name, { description, ...rest }]) => ({
    name,
    in: "query",
    required: allRequired && required.includes(name),
    description,
    schema: rest,
    example: examples[name],
  }));
}

function schemaOf(schema: z.ZodType, io: "input" | "output" = "output"): Json {
  const { $schema: _, ...rest } = z.toJSONSchema(schema, { io });
  return withoutBounds(rest) as Json;
}

/** Zod's bounds of a safe integer say nothing to a reader. */
function withoutBounds(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutBounds);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .filter(([, each]) => Math.abs(Number(each)) !== Number.MAX_SAFE_INTEGER)
      .map(([key, each]) => [key, withoutBounds(each)]),
  );
}

function mapEach<Value, Result>(
  record: Readonly<Record<string, Value>>,
  make: (value: Value) => Result,
): Record<string, Result> {
  return Object.fromEntries(Object.entries(record).map(([key, value]) => [key, make(value)]));
}

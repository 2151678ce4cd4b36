/**
 * `rollcall/connector`: what the module of a connector of your own imports. `connectors/README.md` has an example.
 * Rollcall resolves this name for a module wherever it lies, to the program that runs.
 */
export * from "#connector.ts";
export * from "#completeness.ts";
export {
  IncompleteReadError,
  InputError,
  messageOf,
  ObjectRefusedError,
  RefusedError,
  UnavailableError,
} from "#errors.ts";

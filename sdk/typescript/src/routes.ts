/** Finds the operation of a request, by its method and path. */
import { type OperationId, OPERATIONS } from "./generated/operations.js";

/** An operation with its path, such as `/products/{product_id}`, and the values of its placeholders. */
export interface Route {
  readonly operation: OperationId;
  readonly path: string;
  readonly parameters: Readonly<Record<string, string>>;
}

// A fixed path goes before one with a placeholder: `/products/batch` is not the product `batch`.
const TABLE = (Object.entries(OPERATIONS) as [OperationId, string][])
  .map(([operation, route]) => {
    const [method = "", path = ""] = route.split(" ");
    return { operation, method, path, parts: path.split("/") };
  })
  .sort((one, other) => one.path.split("{").length - other.path.split("{").length);

/** The operation at a path below `/api/v3/app`; undefined if there is none. */
export function routeOf(method: string, path: string): Route | undefined {
  const given = path.split("/");
  const fits = (part: string, index: number): boolean => part === given[index] || part.startsWith("{");
  const found = TABLE.find((entry) => entry.method === method && entry.parts.length === given.length && entry.parts.every(fits));
  if (!found) return undefined;
  const named = found.parts.flatMap((part, index) => (part.startsWith("{") ? [[part.slice(1, -1), given[index] ?? ""] as const] : []));
  return { operation: found.operation, path: found.path, parameters: Object.fromEntries(named) };
}

// Sends a request to the worker with the fewest active requests among those that hold enough of its prompt; a tool's
// result goes to the worker that holds most.
//
// Who owns what: arguments are the policy's to free, answers and refusals are freed by the bindings once the host has
// read them.

#include "component.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PARAMETER "min_device_overlap_blocks"

typedef exports_pointsman_policy_worker_selection_environment_t environment_t;
typedef exports_pointsman_policy_worker_selection_declaration_t declaration_t;
typedef exports_pointsman_policy_worker_selection_stage_t stage_t;
typedef exports_pointsman_policy_worker_selection_request_t request_t;
typedef exports_pointsman_policy_worker_selection_candidates_t candidates_t;

static const char schema[] = {
#embed "parameters.schema.json"
    , 0};

// Blocks of the prompt that a worker must hold in device memory to be considered.
static double least_blocks = 0;

static component_list_string_t strings(size_t count, const char *const texts[]) {
  component_list_string_t list = {calloc(count, sizeof(component_string_t)), count};
  for (size_t i = 0; i < count; i++) component_string_dup(&list.ptr[i], texts[i]);
  return list;
}

static void stage(stage_t *stage, const char *name, const char *input) {
  component_string_dup(&stage->name, name);
  stage->inputs = strings(1, &input);
}

// Calls bring lists that are the policy's to free; `details` has none for a policy that declares no such input, but for
// what the client brought.
static void done(request_t *request, candidates_t *candidates) {
  exports_pointsman_policy_worker_selection_request_free(request);
  exports_pointsman_policy_worker_selection_candidates_free(candidates);
}

static const char *spaces(const char *at) { return at + strspn(at, " \t\r\n"); }

// Reads the one parameter out of a JSON object, which the host wrote: it is well-formed. Answers what is wrong, or null.
static const char *read_parameter(const char *json, double *value, char *wrong, size_t room) {
  const char *at = spaces(strchr(json, '{') + 1);
  bool is_there = false;
  while (*at == '"') {
    const char *name = at + 1;
    const char *end = strchr(name, '"');
    int length = (int)(end - name);
    at = spaces(strchr(end, ':') + 1);
    if (length != (int)strlen(PARAMETER) || strncmp(name, PARAMETER, length) != 0) {
      snprintf(wrong, room, "unknown parameter \"%.*s\", expected \"%s\"", length, name, PARAMETER);
      return wrong;
    }
    char *after;
    bool is_number = *at == '-' || (*at >= '0' && *at <= '9');
    *value = strtod(at, &after);
    if (!is_number || !isfinite(*value) || *value < 0) {
      int shown = is_number ? (int)(after - at) : (int)strcspn(at, ",}");
      snprintf(wrong, room, "parameter \"%s\" is %.*s; give a finite number, 0 or more", PARAMETER, shown, at);
      return wrong;
    }
    is_there = true;
    at = spaces(after);
    if (*at == ',') at = spaces(at + 1);
  }
  return is_there ? NULL : "missing parameter \"" PARAMETER "\"";
}

void exports_pointsman_policy_about_describe(exports_pointsman_policy_about_description_t *ret) {
  component_string_dup(&ret->name, "least-busy-c");
  component_string_dup(&ret->version, "0.1.0");
  component_string_dup(&ret->summary, "Fewest active requests; cache-local on a tool result.");
  component_string_dup(&ret->parameters_schema, schema);
}

bool exports_pointsman_policy_worker_selection_configure(environment_t *environment, declaration_t *ret,
                                                         component_string_t *err) {
  char *json = strndup((const char *)environment->parameters.ptr, environment->parameters.len);
  char room[512];
  const char *wrong = read_parameter(json, &least_blocks, room, sizeof room);
  if (wrong) component_string_dup(err, wrong);
  free(json);
  exports_pointsman_policy_worker_selection_environment_free(environment);
  if (wrong) return false;

  *ret = (declaration_t){0};
  ret->filters.ptr = calloc(1, sizeof(stage_t));
  ret->filters.len = 1;
  stage(ret->filters.ptr, "device-overlap", "device-overlap-blocks");
  ret->scorers.ptr = calloc(1, sizeof(stage_t));
  ret->scorers.len = 1;
  stage(ret->scorers.ptr, "active-requests", "active-requests");
  ret->picker.is_some = true;
  stage(&ret->picker.val, "cache-local-on-tool-result", "device-overlap-blocks");
  ret->properties = strings(2, (const char *const[]){"stateless", "replicable"});
  return true;
}

bool exports_pointsman_policy_worker_selection_keep(uint32_t filter, request_t *request, candidates_t *candidates,
                                                    component_list_u64_t *ret, component_string_t *err) {
  uint32_t rows = candidates->rows;
  ret->len = (rows + 63) / 64;
  ret->ptr = calloc(ret->len, sizeof(uint64_t));
  for (uint32_t row = 0; row < rows; row++)
    ret->ptr[row / 64] |= (uint64_t)(candidates->numbers.ptr[row] >= least_blocks) << (row % 64);
  done(request, candidates);
  return true;
}

// The one column is the cost: it is handed back as it came.
bool exports_pointsman_policy_worker_selection_score(uint32_t scorer, request_t *request, candidates_t *candidates,
                                                     component_list_f64_t *ret, component_string_t *err) {
  *ret = candidates->numbers;
  candidates->numbers = (component_list_f64_t){0};
  done(request, candidates);
  return true;
}

// The lowest cost, the first among equals; on a tool result the most overlap, the last among equals.
bool exports_pointsman_policy_worker_selection_pick(request_t *request, candidates_t *candidates,
                                                    component_list_f64_t *costs, uint32_t *ret,
                                                    component_string_t *err) {
  bool by_overlap = request->trigger == POINTSMAN_POLICY_TYPES_INPUT_TRIGGER_TOOL_RESULT;
  const double *overlap = candidates->numbers.ptr;
  uint32_t best = 0;
  for (uint32_t row = 1; row < candidates->rows; row++)
    if (by_overlap ? overlap[row] >= overlap[best] : costs->ptr[row] < costs->ptr[best]) best = row;
  *ret = best;
  component_list_f64_free(costs);
  done(request, candidates);
  return true;
}

-- Sends the requests of a file, one per line (method, path, token and body, separated by tabs), each after a pause of this
-- many milliseconds on average, and prints the result in one machine-readable line.
local prepared, turn, threads = {}, 0, {}
ok, refused, rude, other = 0, 0, 0, 0

function setup(thread) threads[#threads + 1] = thread end

function init(args)
  think = tonumber(args[2])
  for line in io.lines(args[1]) do
    local method, path, token, body = line:match("^(.-)\t(.-)\t(.-)\t(.*)$")
    local headers = {["authorization"] = "Bearer " .. token, ["Host"] = "localhost"}  -- in this spelling, or wrk adds another one
    if body ~= "" then headers["content-type"] = "application/json" end
    prepared[#prepared + 1] = wrk.format(method, path, headers, body ~= "" and body or nil)
  end
  if think == 0 then delay = nil end
end

function delay() return math.random(0, 2 * think) end

function request()
  turn = turn % #prepared + 1
  return prepared[turn]
end

function response(status, headers)
  if status < 300 then ok = ok + 1
  elseif status == 429 or status == 503 then
    refused = refused + 1
    if not (headers["retry-after"] or headers["Retry-After"]) then rude = rude + 1 end
  else other = other + 1 end
end

function done(summary, latency)
  local errors, sums = summary.errors, {0, 0, 0, 0}
  for _, thread in ipairs(threads) do
    for index, name in ipairs({"ok", "refused", "rude", "other"}) do sums[index] = sums[index] + thread:get(name) end
  end
  io.write(string.format("RESULT %d %d %d %d %d %d %.0f %.0f\n", summary.duration, sums[1], sums[2], sums[3], sums[4],
    errors.connect + errors.read + errors.write + errors.timeout, latency:percentile(50), latency:percentile(99)))
end

-- Sends requests that were made beforehand, and tells the result in one line that a program reads.
-- Arguments: method, path with %d where an id goes, first id, last id, body.
local made, turn = {}, 0

function init(args)
  local first, last = tonumber(args[3]), tonumber(args[4])
  math.randomseed(7)
  for i = 1, 2000 do
    made[i] = wrk.format(args[1], (args[2]:gsub("%%d", function() return math.random(first, last) end)), nil, args[5])
  end
end

function request()
  turn = turn % #made + 1
  return made[turn]
end

function done(summary, latency)
  local errors = summary.errors
  io.write(string.format("RESULT %d %d %.0f %.0f %d %d\n", summary.requests, summary.duration, latency:percentile(50),
    latency:percentile(99), errors.status, errors.connect + errors.read + errors.write + errors.timeout))
end

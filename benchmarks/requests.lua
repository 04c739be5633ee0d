-- Sends prepared requests, and prints the result in one machine-readable line.
-- Arguments: method, path (with %d, %e and %f for ids), first id, last id, body (likewise), placeholder of a number, seed.
local prepared, turn = {}, 0

local function split(text, placeholder)
  local pieces, from = {}, 1
  while true do
    local at, till = text:find(placeholder, from, true)
    pieces[#pieces + 1] = text:sub(from, (at or 0) - 1)
    if not at then return pieces end
    from = till + 1
  end
end

function init(args)
  local first, last = tonumber(args[3]), tonumber(args[4])
  math.randomseed(tonumber(args[7]))
  for i = 1, 2000 do
    local span, id = last - first + 1, math.random(first, last)
    local function filled(text)
      for index, name in ipairs({"%%d", "%%e", "%%f"}) do
        text = text:gsub(name, string.format("%d", first + (id - first + math.floor(span / 3) * (index - 1)) % span))
      end
      return text
    end
    prepared[i] = split(wrk.format(args[1], filled(args[2]), nil, filled(args[5])), args[6])
  end
end

function request()
  turn = turn % #prepared + 1
  local pieces = prepared[turn]
  if #pieces == 1 then return pieces[1] end
  -- As long as the placeholder, so that Content-Length stays correct.
  return table.concat(pieces, string.format("%09d%09d", math.random(1e8, 1e9 - 1), math.random(0, 1e9 - 1)))
end

function done(summary, latency)
  local errors = summary.errors
  io.write(string.format("RESULT %d %.0f %d %.0f %.0f %d %d\n", summary.requests, summary.bytes, summary.duration,
    latency:percentile(50), latency:percentile(99), errors.status, errors.connect + errors.read + errors.write + errors.timeout))
end

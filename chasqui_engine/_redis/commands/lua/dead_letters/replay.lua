-- includes: put
-- Moves dead letters back to the stream. One that another replay took first is passed over.
-- KEYS  1 dead letters; 2 stream; 3… the failure key of each job that has an id
-- ARGV  per entry: its id in the dead letters, envelope, name, index of its failure key ('0' for none)
-- Reply the number moved
local dlq, stream = KEYS[1], KEYS[2]
local moved = 0

local function headers_in(fields)
  for f = 1, #fields, 2 do
    if fields[f] == 'h' then return fields[f + 1] end
  end
end

for i = 1, #ARGV, 4 do
  local envelope, name, failure_key = ARGV[i + 1], ARGV[i + 2], tonumber(ARGV[i + 3])
  local letter = redis.call('XRANGE', dlq, ARGV[i], ARGV[i])[1]
  if letter then
    redis.call('XADD', stream, '*', fields_of(name, envelope, headers_in(letter[2])))
    redis.call('XDEL', dlq, ARGV[i])
    if failure_key > 0 then redis.call('DEL', KEYS[failure_key]) end
    moved = moved + 1
  end
end
return moved

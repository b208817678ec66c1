-- includes: put delayed_member promotion emit
-- Moves one delayed job onto the stream, due or not.
-- KEYS  1 delayed; 2 stream; 3 events; 4 its index key; 5 its headers key
-- ARGV  1 events maximum; 2 member
-- Reply 1 if it was still delayed
if not redis.call('ZSCORE', KEYS[1], ARGV[2]) then return 0 end
promote_member(KEYS[1], KEYS[2], ARGV[2], redis.call('GET', KEYS[5]))
redis.call('DEL', KEYS[4])
emit(KEYS[3], ARGV[1], server_now_ms(), 'waiting', id_of(ARGV[2]), told_name(ARGV[2]))
return 1

// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.37;

// What contracts can do to each other, as far as any network with Ethereum's machine must agree: vm/machine.test.ts runs
// it on two of them. Nothing that it finds depends on prices, on time, or on the addresses of what it creates.
contract Probe {
    uint256 public stored;
    bytes32[] private _found;

    function probe(bytes calldata text, bytes32 digest, uint8 v, bytes32 r, bytes32 s) external payable returns (bytes32[] memory) {
        Helper helper = new Helper{value: 3}(7);
        _note(helper.stored());
        _note(address(helper).balance);
        _calls(helper);
        _failures(helper);
        _words(text);
        _note(uint160(ecrecover(digest, v, r, s)));
        _found.push(sha256(text));
        _found.push(address(helper).codehash);
        _found.push(address(0xdead).codehash);
        _note(address(0xdead).code.length);
        _note(address(helper).code.length);
        return _found;
    }

    function _calls(Helper helper) private {
        (bool done, bytes memory returned) = address(helper).delegatecall(abi.encodeCall(Helper.set, (42)));
        _note(done ? stored : 0);
        _note(helper.stored());
        _found.push(keccak256(returned));
        (done, returned) = address(helper).staticcall(abi.encodeCall(Helper.set, (43)));
        _note(done ? 1 : 0);
        _note(returned.length);
        (done, returned) = address(helper).call{value: 2}(abi.encodeCall(Helper.set, (44)));
        _note(helper.stored());
        _found.push(keccak256(returned));
        (done, returned) = address(helper).staticcall(abi.encodeCall(Helper.seen, ()));
        _found.push(keccak256(returned));
        _note(helper.keeps(5));
        _note(helper.kept());
    }

    function _failures(Helper helper) private {
        (bool done, bytes memory returned) = address(helper).call{value: 1}(abi.encodeCall(Helper.setAndFail, (45)));
        _note(done ? 1 : 0);
        _found.push(keccak256(returned));
        _note(helper.stored());
        _note(address(helper).balance);
        (done, returned) = address(helper).call{gas: 50000}(abi.encodeCall(Helper.jumpAway, ()));
        _note(done ? 1 : 0);
        (done, returned) = address(helper).call{value: 1 << 60}("");
        _note(done ? 1 : 0);
        try new Helper(0) returns (Helper) {
            _note(1);
        } catch (bytes memory reason) {
            _found.push(keccak256(reason));
        }
        (done, ) = address(helper).call{gas: 100000}(abi.encodeCall(Helper.forever, ()));
        _note(done ? 1 : 0);
    }

    function _words(bytes calldata text) private {
        bytes memory copy = abi.encodePacked(text, text);
        bytes32 digest;
        assembly {
            mcopy(add(copy, 37), add(copy, 32), 40)
            digest := keccak256(add(copy, 32), mload(copy))
            mstore8(add(copy, 33), 0x1ff)
        }
        _found.push(digest);
        _found.push(keccak256(copy));
        (, bytes memory same) = address(4).staticcall(text);
        _found.push(keccak256(same));
        _note(text.length > 9 ? uint8(text[9]) : 0);
    }

    function _note(uint256 word) private {
        _found.push(bytes32(word));
    }
}

contract Helper {
    uint256 public stored;

    event Set(address indexed by, uint256 value);

    constructor(uint256 first) payable {
        require(first > 0, "nothing");
        stored = first;
    }

    function set(uint256 value) external payable returns (address, address, uint256) {
        stored = value;
        emit Set(msg.sender, value);
        return (msg.sender == address(this) ? address(1) : address(2), address(0), msg.value);
    }

    function seen() external view returns (uint256, uint256) {
        return (stored, address(this).balance);
    }

    function setAndFail(uint256 value) external payable {
        stored = value;
        revert("undone");
    }

    function keeps(uint256 value) external returns (uint256 found) {
        assembly {
            tstore(9, value)
            found := add(tload(9), tload(8))
        }
    }

    function kept() external view returns (uint256 found) {
        assembly {
            found := tload(9)
        }
    }

    function jumpAway() external pure {
        assembly {
            invalid()
        }
    }

    function forever() external view {
        while (stored > 0) {}
    }
}

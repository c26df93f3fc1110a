// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.37;

// Pays each recipient by an internal call, out of the value that comes with the call; all or none.
contract Disperse {
    function disperse(address payable[] calldata to, uint256[] calldata values) external payable {
        require(to.length == values.length);
        uint256 paid = 0;
        for (uint256 i = 0; i < to.length; i++) {
            paid += values[i];
            to[i].transfer(values[i]);
        }
        require(paid <= msg.value);
    }
}
